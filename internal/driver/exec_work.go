package driver

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/launch"
)

// maxWorkSteps bounds the loop iterations that are gone through one by one
// when work is counted; beyond it a loop counts as its extent times the body.
const maxWorkSteps = 1 << 20

// work is what one call of a function computes and moves at least.
type work struct {
	// Flops counts operations on floating-point values, a multiply-add being
	// two, and multiply-adds of integers in matrix products.
	Flops float64
	// Tensor is the part of Flops in matrix products, of operands of
	// TensorType.
	Tensor     float64
	TensorType string
	// Exact is false where a trip count or a branch depends on data: then
	// loops count once and the larger branch counts.
	Exact bool
	// Bytes is the size of each argument read, and of each written, once.
	Bytes float64
}

func (w work) add(o work) work {
	w.Flops += o.Flops
	w.Tensor += o.Tensor
	if w.TensorType == "" {
		w.TensorType = o.TensorType
	}
	w.Exact = w.Exact && o.Exact
	return w
}

func (w work) times(n float64) work {
	w.Flops *= n
	w.Tensor *= n
	return w
}

// countWork counts the work of a module's functions from their IR. Sizes and
// scalars are given by name.
func countWork(mod *ir.IRModule, spec *launch.Spec, env launch.Env) work {
	w := work{Exact: true}
	for _, f := range mod.Funcs {
		c := &workCounter{names: env, known: map[*ir.Var]int64{}, perThread: map[*ir.Var]bool{}, threads: 1}
		w = w.add(c.stmt(f.Body))
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Buffers)) {
		b := spec.Buffers[name]
		n, err := b.Bytes(env)
		if err != nil {
			continue
		}
		switch b.Role {
		case launch.In, launch.Out:
			w.Bytes += float64(n)
		case launch.InOut:
			w.Bytes += 2 * float64(n)
		}
	}
	return w
}

type workCounter struct {
	names     map[string]int64  // sizes and scalars
	known     map[*ir.Var]int64 // variables that have a value here
	perThread map[*ir.Var]bool  // variables that differ between threads
	threads   float64           // of a block whose body speaks of tiles
	parallel  int               // T.parallel loops around
	steps     int               // iterations gone through
}

func (c *workCounter) stmt(s ir.Stmt) work {
	w := work{Exact: true}
	switch s := s.(type) {
	case nil:
	case *ir.SeqStmt:
		for _, x := range s.Seq {
			w = w.add(c.stmt(x))
		}
	case *ir.For:
		return c.loop(s)
	case *ir.While:
		w = c.expr(s.Cond).add(c.stmt(s.Body))
		w.Exact = false
	case *ir.IfThenElse:
		return c.branch(s)
	case *ir.Bind:
		if n, ok := c.eval(s.Value); ok {
			c.known[s.Var] = n
		}
		if isThreadIndex(s.Value) {
			c.threads = ir.DefaultLaunchThreads // unless a block below states them
		}
		if isThreadIndex(s.Value) || c.differs(s.Value) {
			c.perThread[s.Var] = true
		}
		return c.scaled(c.expr(s.Value), c.differs(s.Value))
	case *ir.AttrStmt:
		return c.attr(s)
	case *ir.SBlock:
		if l, ok := s.Annotations.Get("tl.launch_threads").(ir.List); ok {
			c.threads = 1
			for _, a := range l {
				if n, ok := ir.AttrInt(a); ok {
					c.threads *= float64(n)
				}
			}
		}
		if s.Init != nil {
			w = c.stmt(s.Init)
		}
		w = w.add(c.stmt(s.Body))
	case *ir.BufferStore:
		local := s.Buffer.Scope() == "local" || s.Buffer.Scope() == "local.var"
		differs := local || c.differs(s.Value)
		for _, ix := range s.Indices {
			differs = differs || c.differs(ix)
		}
		return c.scaled(c.expr(s.Value), differs)
	case *ir.Evaluate:
		return c.scaled(c.expr(s.Value), c.differs(s.Value))
	}
	return w
}

// scaled counts what every thread does for itself once for each of them.
func (c *workCounter) scaled(w work, differs bool) work {
	if differs && c.parallel == 0 {
		return w.times(c.threads)
	}
	return w
}

// differs reports an expression that mentions a thread's own index.
func (c *workCounter) differs(e ir.Expr) bool {
	return ir.UsesVar(e, func(v *ir.Var) bool { return c.perThread[v] })
}

func isThreadIndex(e ir.Expr) bool {
	_, ok := ir.IsCall(e, "launch_thread_idx")
	return ok
}

func (c *workCounter) attr(s *ir.AttrStmt) work {
	if s.Body == nil {
		return work{Exact: true}
	}
	if iv, ok := s.Node.(*ir.IterVar); ok && s.Key == ir.KeyThreadExtent {
		if e, ok := s.Value.(ir.Expr); ok {
			return c.launchAxis(iv.Var, iv.Tag, e, s.Body)
		}
		if n, ok := ir.AttrInt(s.Value); ok {
			return c.launchAxis(iv.Var, iv.Tag, ir.I32(n), s.Body)
		}
	}
	return c.stmt(s.Body)
}

// launchAxis counts the body for each value of a launch axis. Threads differ in
// nothing that is counted.
func (c *workCounter) launchAxis(v *ir.Var, axis string, extent ir.Expr, body ir.Stmt) work {
	f := &ir.For{Var: v, Min: ir.I32(0), Extent: extent, Kind: ir.ThreadBinding, Thread: axis, Body: body}
	return c.loop(f)
}

func (c *workCounter) loop(f *ir.For) work {
	lo, ok1 := c.eval(f.Min)
	n, ok2 := c.eval(f.Extent)
	step := int64(1)
	ok3 := true
	if f.Step != nil {
		step, ok3 = c.eval(f.Step)
	}
	if f.Kind == ir.Parallel {
		c.parallel++
		defer func() { c.parallel-- }()
	}
	if !ok1 || !ok2 || !ok3 || step < 1 {
		delete(c.known, f.Var)
		w := c.stmt(f.Body)
		w.Exact = false
		return w
	}
	trips := max((n+step-1)/step, 0)
	thread := strings.HasPrefix(f.Thread, "threadIdx.")
	if !thread && dependsOn(f.Body, f.Var) && c.steps+int(min(trips, maxWorkSteps)) <= maxWorkSteps && trips <= maxWorkSteps {
		c.steps += int(trips)
		w := work{Exact: true}
		for i := range trips {
			c.known[f.Var] = lo + i*step
			w = w.add(c.stmt(f.Body))
		}
		delete(c.known, f.Var)
		return w
	}
	delete(c.known, f.Var)
	return c.stmt(f.Body).times(float64(trips))
}

// dependsOn reports that a trip count or a branch in a body depends on a
// variable, by itself or through others bound from it.
func dependsOn(body ir.Stmt, v *ir.Var) bool {
	dep := map[*ir.Var]bool{v: true}
	uses := func(e ir.Expr) bool {
		return e != nil && ir.UsesVar(e, func(v *ir.Var) bool { return dep[v] })
	}
	found := false
	ir.Walk(body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Bind:
			if uses(s.Value) {
				dep[s.Var] = true
			}
		case *ir.For:
			found = found || uses(s.Min) || uses(s.Extent)
		case *ir.IfThenElse:
			found = found || uses(s.Cond)
		}
		return !found
	})
	return found
}

func (c *workCounter) branch(s *ir.IfThenElse) work {
	w := c.expr(s.Cond)
	if v, ok := c.eval(s.Cond); ok {
		switch {
		case v != 0:
			return w.add(c.stmt(s.Then))
		case s.Else != nil:
			return w.add(c.stmt(s.Else))
		}
		return w
	}
	then := c.stmt(s.Then)
	if s.Else != nil {
		if other := c.stmt(s.Else); other.Flops > then.Flops {
			then = other
		}
	}
	w = w.add(then)
	w.Exact = w.Exact && then.Flops == 0
	return w
}

// mathCalls are the operators on floats that count as one operation.
var mathCalls = map[string]float64{
	"exp": 1, "exp2": 1, "exp10": 1, "log": 1, "log2": 1, "log10": 1, "log1p": 1, "sqrt": 1, "rsqrt": 1, "sin": 1, "cos": 1,
	"tan": 1, "tanh": 1, "sinh": 1, "cosh": 1, "asin": 1, "acos": 1, "atan": 1, "atan2": 1, "erf": 1, "pow": 1, "sigmoid": 1,
	"fma": 2, "hypot": 1, "fmod": 1, "__exp": 1, "__exp10": 1, "__log": 1, "__log2": 1, "__log10": 1, "__tan": 1, "__cos": 1, "__sin": 1,
}

var reMMAShape = regexp.MustCompile(`^m(\d+)n(\d+)k(\d+)$`)

// expr counts the operations of one evaluation.
func (c *workCounter) expr(e ir.Expr) work {
	w := work{Exact: true}
	if e == nil {
		return w
	}
	ir.WalkExpr(e, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			return false // what computes an index is no work
		case *ir.Binary:
			switch e.Op {
			case ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Min, ir.Max:
				if t := e.DType(); t.IsFloat() {
					w.Flops += float64(t.Lanes)
				}
			}
		case *ir.Call:
			if e.Op == nil {
				break
			}
			if n := mathCalls[e.Op.Name]; n > 0 && e.Type.IsFloat() {
				w.Flops += n * float64(e.Type.Lanes)
				break
			}
			o, more := c.call(e)
			w = w.add(o)
			return more
		}
		return true
	})
	return w
}

// call counts an operator on tiles or matrices; more reports whether its
// arguments count too.
func (c *workCounter) call(e *ir.Call) (w work, more bool) {
	w.Exact = true
	name := e.Op.Name
	switch {
	case strings.HasSuffix(name, "gemm") && e.Op.Tile && len(e.Args) > 7:
		m, ok1 := c.eval(e.Args[5])
		n, ok2 := c.eval(e.Args[6])
		k, ok3 := c.eval(e.Args[7])
		w.Exact = ok1 && ok2 && ok3
		w.Tensor = 2 * float64(m) * float64(n) * float64(k)
		if b := regionBuffer(e.Args[0]); b != nil {
			w.TensorType = b.Type.Scalar().String()
		}
	case name == "reduce" || name == "cumsum":
		if b := regionBuffer(e.Args[0]); b != nil && b.Type.IsFloat() {
			w.Flops = c.regionSize(e.Args[0])
		}
		return w, false
	case strings.Contains(name, "mma") && !strings.Contains(name, "store") && !strings.Contains(name, "fill"):
		threads := 32.0
		if strings.Contains(name, "wgmma") {
			threads = 128
		}
		for _, a := range e.Args {
			s, ok := a.(*ir.StringImm)
			if !ok {
				continue
			}
			if m := reMMAShape.FindStringSubmatch(s.Value); m != nil {
				w.Tensor = 2 / threads
				for _, d := range m[1:] {
					n, _ := strconv.Atoi(d)
					w.Tensor *= float64(n)
				}
			} else if t, ok := mmaOperand(s.Value); ok && w.TensorType == "" {
				w.TensorType = t
			}
		}
	case e.Op.Tile:
		return w, false
	default:
		return w, true
	}
	w.Flops = w.Tensor
	return w, false
}

// mmaOperand is the type that an mma's operand string stands for.
func mmaOperand(s string) (string, bool) {
	switch s {
	case "fp16", "float16":
		return "float16", true
	case "bf16", "bfloat16":
		return "bfloat16", true
	case "tf32", "tfloat32", "float32":
		return "tfloat32", true
	case "int8", "uint8":
		return s, true
	case "e4m3", "float8_e4m3", "float8_e4m3fn":
		return "float8_e4m3fn", true
	case "e5m2", "float8_e5m2":
		return "float8_e5m2", true
	}
	return "", false
}

func regionBuffer(e ir.Expr) *ir.Buffer {
	if call, ok := ir.IsCall(e, "region"); ok && len(call.Args) > 0 {
		e = call.Args[0]
	}
	if l, ok := e.(*ir.BufferLoad); ok {
		return l.Buffer
	}
	return nil
}

// regionSize is the number of elements of T.region(B[...], access, extents...).
func (c *workCounter) regionSize(e ir.Expr) float64 {
	call, ok := ir.IsCall(e, "region")
	if !ok || len(call.Args) < 3 {
		return 0
	}
	n := 1.0
	for _, x := range call.Args[2:] {
		k, _ := c.eval(x)
		n *= float64(k)
	}
	return n
}

// eval evaluates an integer expression as far as its variables are known.
func (c *workCounter) eval(e ir.Expr) (int64, bool) {
	switch e := e.(type) {
	case *ir.IntImm:
		return e.Value, true
	case *ir.Var:
		if n, ok := c.known[e]; ok {
			return n, true
		}
		n, ok := c.names[e.Name]
		return n, ok && e.Type.IsInteger()
	case *ir.Cast:
		if !e.Type.IsInteger() {
			return 0, false
		}
		return c.eval(e.Value)
	case *ir.Not:
		n, ok := c.eval(e.A)
		return boolInt(n == 0), ok
	case *ir.Binary:
		x, ok := c.eval(e.A)
		if !ok {
			return 0, false
		}
		y, ok := c.eval(e.B)
		if !ok {
			return 0, false
		}
		v := ir.FoldInt(e.Op, ir.IntConst(e.A.DType(), x), ir.IntConst(e.B.DType(), y))
		if v == nil {
			return 0, false
		}
		return ir.AsInt(v)
	case *ir.Select:
		n, ok := c.eval(e.Cond)
		if !ok {
			return 0, false
		}
		if n != 0 {
			return c.eval(e.True)
		}
		return c.eval(e.False)
	case *ir.Call:
		if e.Op == nil || len(e.Args) != 2 {
			return 0, false
		}
		x, ok1 := c.eval(e.Args[0])
		y, ok2 := c.eval(e.Args[1])
		if !ok1 || !ok2 {
			return 0, false
		}
		switch e.Op.Name {
		case "shift_right":
			return x >> uint(y&63), true
		case "shift_left":
			return x << uint(y&63), true
		case "bitwise_and":
			return x & y, true
		}
	}
	return 0, false
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

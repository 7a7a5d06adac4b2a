package cuda

import (
	"fmt"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/launch"
	"lowertrace/internal/pipeline"
)

// kernelInfo is what the host must know of one kernel.
type kernelInfo struct {
	name         string // in CUDA
	fn           *ir.PrimFunc
	grid, block  [3]ir.Expr
	smem, static int64
	cluster      *[3]int
	params       []paramInfo
	pointers     int
	cooperative  bool
	programmatic bool
}

type paramInfo struct {
	v    *ir.Var
	name string // in CUDA
}

// threads is the number of threads of a block, if it is constant.
func (k *kernelInfo) threads() (int64, bool) {
	n := int64(1)
	for _, e := range k.block {
		v, ok := ir.AsInt(e)
		if !ok {
			return 0, false
		}
		n *= v
	}
	return n, true
}

// launchInfo reads a kernel's launch from its axes and attributes.
func (g *gen) launchInfo(f *ir.PrimFunc) kernelInfo {
	k := kernelInfo{fn: f}
	for i := range 3 {
		k.grid[i], k.block[i] = ir.I32(1), ir.I32(1)
	}
	extent := func(tag string, e ir.Expr) {
		axis := strings.IndexByte("xyz", tag[len(tag)-1])
		if axis < 0 {
			return
		}
		if strings.HasPrefix(tag, "blockIdx") {
			k.grid[axis] = e
		} else {
			k.block[axis] = e
		}
	}
	for _, a := range g.facts.threads {
		if iv, ok := a.Node.(*ir.IterVar); ok && launchAxes[iv.Tag] != "" {
			if e, ok := a.Value.(ir.Expr); ok {
				extent(iv.Tag, e)
			}
		}
	}
	if d, ok := f.Attr("thread_extent").(*ir.Dict); ok {
		for _, e := range d.Entries {
			tag, _ := ir.AttrString(e.Key)
			if v, ok := e.Value.(ir.Expr); ok && launchAxes[tag] != "" {
				extent(tag, v)
			}
		}
	}
	k.smem, _ = ir.AttrInt(f.Attr("dyn_shared_memory_buf"))
	if l, ok := f.Attr("cluster_dims").(ir.List); ok && len(l) == 3 {
		var c [3]int
		n := 1
		for i, a := range l {
			v, _ := ir.AttrInt(a)
			c[i] = int(v)
			n *= c[i]
		}
		if n > 1 {
			k.cluster = &c
		}
	}
	k.cooperative = truth(f.Attr("use_cooperative_groups"))
	k.programmatic = truth(f.Attr("has_cuda_pdl_sync"))
	return k
}

func truth(a ir.Attr) bool {
	n, ok := ir.AttrInt(a)
	return ok && n != 0
}

// spec is launch.json for the module: the host function's arguments where the
// lowering kept them, else the kernels' parameters. It is nil when kernels
// take tensor maps and nothing says how they are made.
func (g *gen) spec() (*launch.Spec, error) {
	s := &launch.Spec{Version: launch.Version, Args: []string{}, Buffers: map[string]launch.Buffer{}}
	if g.ctx.Target != nil {
		s.ArchLowered = g.ctx.Target.Arch
	}
	if a := pipeline.FuncArch(g.infos[0].fn); a != "" {
		s.ArchLowered = a
	}
	if len(g.ctx.Options) > 0 {
		s.PassConfigs = map[string]any(g.ctx.Options)
	}
	h := g.hostSide()
	if h == nil {
		return g.deviceSpec(s)
	}
	s.Name = h.name
	for i := range g.infos {
		k := &g.infos[i]
		args := h.calls[k.fn.Name]
		for v, u := range usage(k.fn) {
			for j, p := range k.params {
				if p.v != v || j >= len(args) {
					continue
				}
				if a, ok := args[j].(*ir.Var); ok {
					if c := h.maps[a]; c != nil && len(c.Args) > 4 {
						a, _ = c.Args[4].(*ir.Var)
					}
					if name, ok := h.buffer(a); ok {
						old := h.usage[name]
						h.usage[name] = use{old.read || u.read, old.written || u.written}
					}
				}
			}
		}
	}
	if err := h.arguments(s); err != nil {
		return nil, pipeline.Errorf(g.infos[0].fn.Org, "%v", err)
	}
	for i := range g.infos {
		k := &g.infos[i]
		l, err := k.launch()
		if err == nil {
			l.Params, err = h.params(k)
		}
		if err == nil {
			l.L2, err = h.l2(k.fn.Name)
		}
		if err != nil {
			return nil, pipeline.Errorf(k.fn.Org, "the launch of %s: %v", k.name, err)
		}
		s.Launches = append(s.Launches, l)
	}
	return s, nil
}

// deviceSpec describes kernels by themselves: their parameters, in the order
// of first appearance, are the arguments.
func (g *gen) deviceSpec(s *launch.Spec) (*launch.Spec, error) {
	s.Name = g.infos[0].name
	for i := range g.infos {
		k := &g.infos[i]
		l, err := k.launch()
		if err != nil {
			return nil, pipeline.Errorf(k.fn.Org, "the launch of %s: %v", k.name, err)
		}
		how := usage(k.fn)
		shapes := map[*ir.Var]*ir.Buffer{}
		ir.Walk(k.fn.Body, func(st ir.Stmt) bool {
			if d, ok := st.(*ir.DeclBuffer); ok && shapes[d.Buffer.Data] == nil {
				shapes[d.Buffer.Data] = d.Buffer
			}
			return true
		})
		for _, p := range k.params {
			name := p.v.Name
			switch {
			case p.v.Ptr != nil && p.v.Ptr.Scope == "grid_constant":
				return nil, nil
			case p.v.Type.IsHandle():
				b, known := s.Buffers[name]
				if !known {
					n := len(s.Args)
					b = launch.Buffer{Index: &n, Shape: []launch.Size{}, DType: ir.DUInt8.String(), Role: how[p.v].role()}
					if p.v.Ptr != nil {
						b.DType = p.v.Ptr.Elem.Scalar().String()
					}
					if v := shapes[p.v]; v != nil {
						if d, err := bufferDesc(v); err == nil {
							b.Shape = d.Shape
						}
					}
					s.Args = append(s.Args, name)
				} else if b.Role != how[p.v].role() {
					b.Role = launch.InOut
				}
				s.Buffers[name] = b
				l.Params = append(l.Params, launch.Param{Buffer: name})
			default:
				if s.Scalars == nil {
					s.Scalars = map[string]launch.Scalar{}
				}
				if _, known := s.Scalars[name]; !known {
					s.Scalars[name] = launch.Scalar{Index: len(s.Args), DType: p.v.Type.String()}
					s.Args = append(s.Args, name)
				}
				v, err := launch.ValueExpr(name)
				if err != nil {
					return nil, pipeline.Errorf(k.fn.Org, "the launch of %s: %v", k.name, err)
				}
				l.Params = append(l.Params, launch.Param{Scalar: v, ScalarDType: p.v.Type.String()})
			}
		}
		s.Launches = append(s.Launches, l)
	}
	return s, nil
}

// launch is a kernel's launch without its parameters.
func (k *kernelInfo) launch() (launch.Launch, error) {
	l := launch.Launch{Kernel: k.name, SMem: launch.Const(k.smem), StaticSMem: int(k.static), Cluster: k.cluster,
		Cooperative: k.cooperative, Programmatic: k.programmatic}
	var err error
	if l.Grid, err = sizes(k.grid); err == nil {
		l.Block, err = sizes(k.block)
	}
	return l, err
}

func sizes(e [3]ir.Expr) ([3]launch.Size, error) {
	var out [3]launch.Size
	for i, x := range e {
		s, err := size(x)
		if err != nil {
			return out, err
		}
		out[i] = s
	}
	return out, nil
}

// size turns an integer expression over parameters into one of launch.json.
func size(e ir.Expr) (launch.Size, error) {
	if v, ok := ir.AsInt(e); ok {
		return launch.Const(v), nil
	}
	s, _, err := sizeText(e)
	if err != nil {
		return launch.Size{}, err
	}
	return launch.ParseSize(s)
}

var sizeTokens = map[ir.BinOp]struct {
	token string
	prec  int
}{
	ir.Add: {"+", 3}, ir.Sub: {"-", 3}, ir.Mul: {"*", 4}, ir.FloorDiv: {"//", 4}, ir.FloorMod: {"%", 4},
	ir.LT: {"<", 2}, ir.LE: {"<=", 2}, ir.GT: {">", 2}, ir.GE: {">=", 2}, ir.EQ: {"==", 2}, ir.NE: {"!=", 2},
}

func sizeText(e ir.Expr) (string, int, error) {
	const atomPrec = 6
	switch e := e.(type) {
	case *ir.Var:
		return e.Name, atomPrec, nil
	case *ir.IntImm:
		if e.Value < 0 {
			return itoa(e.Value), 5, nil
		}
		return itoa(e.Value), atomPrec, nil
	case *ir.Cast:
		if e.Type.IsInteger() && e.Type.Bits >= 32 {
			return sizeText(e.Value)
		}
	case *ir.Binary:
		a, pa, err := sizeText(e.A)
		if err != nil {
			return "", 0, err
		}
		b, pb, err := sizeText(e.B)
		if err != nil {
			return "", 0, err
		}
		switch e.Op {
		case ir.Min, ir.Max:
			return fmt.Sprintf("%s(%s, %s)", strings.ToLower(e.Op.String()), a, b), atomPrec, nil
		}
		if t, ok := sizeTokens[e.Op]; ok {
			if pa < t.prec || t.prec == 2 && pa == 2 {
				a = "(" + a + ")"
			}
			if pb <= t.prec {
				b = "(" + b + ")"
			}
			return a + " " + t.token + " " + b, t.prec, nil
		}
	case *ir.Call:
		// Shifts and masks by powers of two are floor division and remainder.
		if e.Op != nil && len(e.Args) == 2 {
			if n, ok := ir.AsInt(e.Args[1]); ok {
				switch {
				case e.Op.Name == "shift_right" && n >= 0 && n < 31:
					return sizeText(&ir.Binary{Op: ir.FloorDiv, A: e.Args[0], B: ir.IntConst(e.Args[0].DType(), 1<<n)})
				case e.Op.Name == "shift_left" && n >= 0 && n < 31:
					return sizeText(&ir.Binary{Op: ir.Mul, A: e.Args[0], B: ir.IntConst(e.Args[0].DType(), 1<<n)})
				case e.Op.Name == "bitwise_and" && n >= 0 && n&(n+1) == 0:
					return sizeText(&ir.Binary{Op: ir.FloorMod, A: e.Args[0], B: ir.IntConst(e.Args[0].DType(), n+1)})
				}
			}
		}
	}
	return "", 0, fmt.Errorf("a size that launch.json cannot say: %T", e)
}

func specJSON(s *launch.Spec) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return s.Format()
}

// launchComment says in words what launch.json says in data.
func (g *gen) launchComment(s *launch.Spec) []string {
	dims := func(d [3]ir.Expr) string {
		var parts [3]string
		for i, e := range d {
			t, _, err := sizeText(e)
			if err != nil {
				t = "?"
			}
			parts[i] = t
		}
		return "(" + strings.Join(parts[:], ", ") + ")"
	}
	var out []string
	if flags := CompileFlags(g.ctx.Options); len(flags) > 0 {
		out = append(out, "// Compile with "+strings.Join(flags, " "))
	}
	for i := range g.infos {
		k := &g.infos[i]
		names := make([]string, len(k.params))
		for j, p := range k.params {
			names[j] = p.name
		}
		out = append(out, fmt.Sprintf("// Launch: %s<<<%s, %s, %d>>>(%s)", k.name, dims(k.grid), dims(k.block), k.smem,
			strings.Join(names, ", ")))
		var notes []string
		if k.static > 0 {
			notes = append(notes, fmt.Sprintf("%d bytes of static shared memory", k.static))
		}
		if k.smem > staticLimit {
			notes = append(notes, "raise the limit of dynamic shared memory first")
		}
		if k.cluster != nil {
			notes = append(notes, fmt.Sprintf("clusters of (%d, %d, %d) blocks", k.cluster[0], k.cluster[1], k.cluster[2]))
		}
		if k.cooperative {
			notes = append(notes, "cooperative launch")
		}
		if k.programmatic {
			notes = append(notes, "programmatic stream serialization")
		}
		if len(notes) > 0 {
			out = append(out, "//   "+strings.Join(notes, "; "))
		}
		if s == nil {
			continue
		}
		for _, w := range s.Launches[i].L2 {
			out = append(out, fmt.Sprintf("//   L2 window: %s bytes of %s, hit ratio %g", w.Bytes, w.Buffer, w.Ratio))
		}
		for _, p := range s.Launches[i].Params {
			if p.TMA != "" {
				out = append(out, "//   "+tensorMapComment(p))
			}
		}
	}
	return out
}

// staticLimit is the dynamic shared memory a launch may use unasked, bytes.
const staticLimit = 48 << 10

func tensorMapComment(p launch.Param) string {
	join := func(list []launch.Size) string {
		parts := make([]string, len(list))
		for i, x := range list {
			parts[i] = x.String()
		}
		return strings.Join(parts, ", ")
	}
	ints := func(list []int) string {
		parts := make([]string, len(list))
		for i, x := range list {
			parts[i] = itoa(int64(x))
		}
		return strings.Join(parts, ", ")
	}
	s := fmt.Sprintf("%s: tensor map of %s, %s, extents (%s), strides (%s) bytes", p.TMA, p.Buffer, p.Mode, join(p.GDim), join(p.GStrideAll))
	if p.Mode == "im2col" {
		s += fmt.Sprintf(", corners (%s) to (%s), %d channels of %d pixels", ints(p.Lower), ints(p.Upper), p.Channels, p.Pixels)
	} else {
		s += fmt.Sprintf(", box (%s)", ints(p.Box))
	}
	return s + fmt.Sprintf(", element strides (%s), swizzle %d", ints(p.EStride), p.Swizzle)
}

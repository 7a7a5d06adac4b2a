package cuda

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// OptSourceComments puts the source line before what a source statement
// became.
var OptSourceComments = pipeline.RegisterOption(pipeline.Option{
	Key: "cuda.source_comments", Default: true,
	Doc: "comment generated CUDA with the source line each statement came from",
})

// maxSourceComment bounds the source text quoted in a comment, in bytes.
const maxSourceComment = 100

// Generate is the CUDA code generator. It prints the device functions of m;
// host functions beside them are skipped. When the lowering kept the host
// side (Context.Aside), the launch description speaks of its arguments, else
// of the kernels' own parameters.
func Generate(c *pipeline.Context, m *ir.IRModule) (out *pipeline.Output, err error) {
	g := &gen{ctx: c, pre: prelude{fastMath: c.Bool(EnableFastMath), seen: map[string]bool{}}, comments: c.Bool(OptSourceComments), externs: map[string]ir.DType{}}
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			out, err = nil, f.err
		}
	}()
	var kernels []*ir.PrimFunc
	for _, f := range m.Funcs {
		if !pipeline.IsHostFunc(f) {
			kernels = append(kernels, f)
		}
	}
	if len(kernels) == 0 {
		var span ir.Span
		hosts := m.Funcs
		if host := c.Aside[AsideHost]; host != nil && len(hosts) == 0 {
			hosts = host.Funcs
		}
		if len(hosts) > 0 {
			span = hosts[0].Org
		}
		return nil, pipeline.Errorf(span, "the module has no device function to print")
	}
	g.collect(kernels)
	for _, f := range kernels {
		g.kernel(f)
	}
	return g.output(m, kernels)
}

// maxSignature is the length of a line of a kernel's signature.
const maxSignature = 120

// failure carries an error out of the printer; Generate recovers it.
type failure struct{ err *pipeline.Error }

// gen prints one module.
type gen struct {
	ctx      *pipeline.Context
	pre      prelude
	comments bool
	lines    []line
	indent   int
	at       ir.Span // of the statement being printed
	quoted   place   // the source line quoted last
	imports  []string
	// externs are extern "C++" functions called by name, which nothing may hide.
	externs map[string]ir.DType
	dynamic map[string]string // dynamic shared arrays of the module: name → type

	// Of the kernel being printed.
	fn     *ir.PrimFunc
	names  scopes
	vars   map[*ir.Var]variable
	inline map[*ir.Var]ir.Expr // constants bound to a name
	facts  facts
	unroll map[*ir.Var]int64 // unroll factors by pragma
	infos  []kernelInfo
	// pending are allocations not yet declared, see declare.
	pending []pendingArray
	// rng is the thread's generator of random numbers.
	rng string
}

type line struct {
	text string
	org  ir.Span
}

type place struct {
	src  *ir.Source
	line int
}

// variable is how a variable is spelled.
type variable struct {
	name string
	elem ir.DType // pointee as declared, for pointers and arrays
	// single is a one-element array declared as a plain variable.
	single bool
	array  bool // an array, not a pointer
}

func (g *gen) fail(format string, args ...any) {
	panic(failure{pipeline.Errorf(g.at, format, args...)})
}

func (g *gen) emit(format string, args ...any) {
	s := format
	if len(args) > 0 {
		s = fmt.Sprintf(format, args...)
	}
	g.lines = append(g.lines, line{strings.Repeat("  ", g.indent) + s, g.at})
}

// quote comments the source line of a statement where another one begins.
func (g *gen) quote(s ir.Stmt) {
	org := s.Origin()
	if !org.IsValid() {
		return
	}
	g.at = org
	p := place{org.Src, org.Line()}
	if !g.comments || p == g.quoted {
		return
	}
	g.quoted = p
	name := org.Src.Name
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	text := strings.TrimSpace(org.Src.Line(p.line))
	if len(text) > maxSourceComment {
		text = strings.ToValidUTF8(text[:maxSourceComment], "") + "…"
	}
	// A backslash at the end would continue the comment on the next line.
	text = strings.TrimRight(strings.Map(printable, text), `\ `)
	g.emit("// %s:%d: %s", printableName(name), p.line, text)
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 {
		return ' '
	}
	return r
}

func printableName(s string) string { return strings.Map(printable, s) }

// facts are what the printer must know of a kernel before it begins.
type facts struct {
	used      map[*ir.Var]bool // variables and data pointers mentioned
	mentions  map[*ir.Var]int  // how often, for declareOuter
	align     map[*ir.Var]int  // alignment that accesses ask of an array, bytes
	threads   []*ir.AttrStmt   // launch axes in order
	raster    *ir.Call         // threadblock swizzle
	minBlocks int64
	tma       bool
	rng       bool                  // random numbers are drawn
	shared    map[string]*ir.Buffer // shared allocations by name
	allocs    []*ir.AllocBuffer     // shared allocations in order
}

// collect reads what concerns all kernels: imported C and called functions.
func (g *gen) collect(kernels []*ir.PrimFunc) {
	g.dynamic = map[string]string{}
	for _, f := range kernels {
		ir.Walk(f.Body, func(s ir.Stmt) bool {
			if a, ok := s.(*ir.AttrStmt); ok && a.Key == "pragma_import_c" {
				g.at = a.Org
				if text, ok := ir.AttrString(a.Value); !ok {
					g.fail("the imported C source is not in the text: it hides it behind metadata")
				} else if !slices.Contains(g.imports, text) {
					g.imports = append(g.imports, text)
				}
			}
			return true
		})
		ir.WalkExprs(f.Body, func(e ir.Expr) bool {
			if c, ok := e.(*ir.Call); ok && c.Op != nil && (c.Op.Name == "call_extern" || c.Op.Name == "call_pure_extern") {
				if n, ok := c.Args[0].(*ir.StringImm); ok {
					g.externs[n.Value] = c.Type
				}
			}
			return true
		})
	}
}

// headerTypes are the types that TileLang's headers define and that imported C
// may name.
var headerTypes = [...][2]string{{"uchar", "unsigned char"}, {"ushort", "unsigned short"}, {"uint", "unsigned"}}

// imported reports a word of the imported C.
func (g *gen) imported(word string) bool {
	for _, t := range g.imports {
		for {
			i := strings.Index(t, word)
			if i < 0 {
				break
			}
			j := i + len(word)
			if (i == 0 || !isWord(t[i-1])) && (j == len(t) || !isWord(t[j])) {
				return true
			}
			t = t[j:]
		}
	}
	return false
}

func (g *gen) survey(f *ir.PrimFunc) facts {
	k := facts{used: map[*ir.Var]bool{}, mentions: mentions(f.Body), align: map[*ir.Var]int{}, shared: map[string]*ir.Buffer{}}
	need := func(v *ir.Var, bytes int) {
		if bytes > k.align[v] {
			k.align[v] = bytes
		}
	}
	access := func(b *ir.Buffer, idx []ir.Expr) {
		k.used[b.Data] = true
		if len(idx) > 0 {
			if n := int(idx[len(idx)-1].DType().Lanes); n > 1 {
				if r, ok := idx[len(idx)-1].(*ir.Ramp); ok && ir.IsConst(r.Stride, 1) {
					need(b.Data, vecAlign(b.Type.WithLanes(n*int(b.Type.Lanes)).Bytes()))
				}
			}
		}
	}
	visit := func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Var:
			k.used[e] = true
		case *ir.BufferLoad:
			access(e.Buffer, e.Indices)
		case *ir.Call:
			if e.Op == nil {
				break
			}
			bytes := opAlign[e.Op.Name]
			if e.Op.Name == "call_extern" {
				if s, ok := e.Args[0].(*ir.StringImm); ok && s.Value == "DP4A" {
					bytes = 4
				}
			}
			for _, a := range e.Args {
				switch a := a.(type) {
				case *ir.Var:
					if bytes > 0 && a.Type.IsHandle() {
						need(a, bytes)
					}
				case *ir.Call:
					if l, ok := addressed(a); ok && bytes > 0 {
						need(l.Buffer.Data, bytes)
					}
				}
			}
			k.rng = k.rng || strings.HasPrefix(e.Op.Name, "rng_")
			if strings.HasPrefix(e.Op.Name, "tma_") || strings.HasPrefix(e.Op.Name, "ptx_wgmma") {
				k.tma = true
			}
		}
		return true
	}
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.AttrStmt:
			switch s.Key {
			case ir.KeyThreadExtent:
				k.threads = append(k.threads, s)
				ir.WalkAttr(s.Value, visit)
				return true
			case "threadblock_swizzle_pattern":
				if c, ok := s.Value.(*ir.Call); ok {
					k.raster = c
				}
			case "tl.min_blocks_per_sm":
				k.minBlocks, _ = ir.AttrInt(s.Value)
			}
			return true
		case *ir.AllocBuffer:
			if sc := s.Buffer.Scope(); strings.HasPrefix(sc, "shared") {
				k.allocs = append(k.allocs, s)
				if k.shared[s.Buffer.Name] == nil {
					k.shared[s.Buffer.Name] = s.Buffer
				}
			}
		case *ir.BufferStore:
			access(s.Buffer, s.Indices)
		}
		ir.StmtExprs(s, visit)
		return true
	})
	return k
}

// addressed is the element an address_of or access_ptr call points to.
func addressed(e ir.Expr) (*ir.BufferLoad, bool) {
	c, ok := e.(*ir.Call)
	if !ok || c.Op == nil || len(c.Args) == 0 || c.Op.Name != "address_of" && c.Op.Name != "access_ptr" {
		return nil, false
	}
	l, ok := c.Args[0].(*ir.BufferLoad)
	return l, ok
}

// opAlign is the alignment, in bytes, that instructions ask of the arrays
// they are given: registers are 32 bits.
var opAlign = map[string]int{
	"ptx_mma": 4, "ptx_ldmatrix": 4, "ptx_wgmma_rs": 4, "ptx_wgmma_ss": 4, "warpgroup_fence_operand": 4, "ptx_cp_async": 16,
	"atomic_addx2_elem_op": 8, "atomic_addx4_elem_op": 16,
}

// kernel prints one device function.
func (g *gen) kernel(f *ir.PrimFunc) {
	g.fn, g.at = f, f.Org
	g.vars, g.inline, g.unroll = map[*ir.Var]variable{}, map[*ir.Var]ir.Expr{}, map[*ir.Var]int64{}
	reserved := map[string]bool{f.Name: true}
	for n := range g.externs {
		reserved[n] = true
	}
	g.names = scopes{reserved: reserved}
	g.names.push()
	g.facts = g.survey(f)
	g.quoted = place{}
	info := g.launchInfo(f)

	if len(g.lines) > 0 {
		g.emit("")
	}
	params := g.params(f, &info)
	bounds := ""
	if n, ok := info.threads(); ok {
		blocks := max(1, g.facts.minBlocks)
		bounds = fmt.Sprintf("__launch_bounds__(%d, %d) ", n, blocks)
	}
	if info.cluster != nil {
		bounds += fmt.Sprintf("__cluster_dims__(%d, %d, %d) ", info.cluster[0], info.cluster[1], info.cluster[2])
	}
	info.name = identifier(f.Name)
	head := strings.TrimSuffix("extern \"C\" __global__ void "+bounds, " ")
	call := info.name + "(" + strings.Join(params, ", ") + ") {"
	switch {
	case len(head)+1+len(call) <= maxSignature:
		g.emit("%s %s", head, call)
	case len(call) <= maxSignature:
		g.emit("%s", head)
		g.emit("%s", call)
	default:
		g.emit("%s", head)
		rest := info.name + "("
		for i, p := range params {
			if i > 0 && len(rest)+len(p)+2 > maxSignature {
				g.emit("%s", strings.TrimRight(rest, " "))
				rest = "    "
			}
			rest += p
			if i < len(params)-1 {
				rest += ", "
			}
		}
		g.emit("%s) {", rest)
	}
	g.indent++
	g.threadIndices()
	g.sharedArrays(&info)
	if g.rng = ""; g.facts.rng {
		g.rng = g.names.fresh("rng")
		g.emit("%s %s;", g.pre.use("philox_t"), g.rng)
	}
	g.block(f.Body)
	g.indent--
	g.at = f.Org
	g.emit("}")
	g.infos = append(g.infos, info)
}

// params declares the parameters of a kernel.
func (g *gen) params(f *ir.PrimFunc, info *kernelInfo) []string {
	readonly := indexSet(f.Attr("tl.readonly_param_indices"))
	aliased := map[*ir.Var]bool{}
	if l, ok := f.Attr("tl.non_restrict_params").(ir.List); ok {
		for _, a := range l {
			switch a := a.(type) {
			case *ir.Var:
				aliased[a] = true
			case *ir.IntImm:
				if a.Value >= 0 && a.Value < int64(len(f.Params)) {
					aliased[f.Params[a.Value]] = true
				}
			}
		}
	}
	noalias, ok := ir.AttrInt(f.Attr("tirx.noalias"))
	if !ok {
		if a, isBool := f.Attr("tirx.noalias").(*ir.IntImm); isBool {
			noalias = a.Value
		}
	}
	var out []string
	for i, p := range f.Params {
		name := g.names.fresh(p.Name)
		switch {
		case p.Ptr != nil && p.Ptr.Scope == "grid_constant":
			g.vars[p] = variable{name: name}
			out = append(out, "const __grid_constant__ "+g.pre.use("tensor_map")+" "+name)
		case p.Ptr != nil && !p.Ptr.Elem.IsVoid():
			t := g.ctype(p.Ptr.Elem)
			g.vars[p] = variable{name: name, elem: p.Ptr.Elem}
			s := g.pre.typ(t) + "* "
			if readonly[i] {
				s = "const " + s
			}
			if noalias != 0 && !aliased[p] {
				s += "__restrict__ "
			}
			out = append(out, s+name)
			info.pointers++
		case p.Type.IsHandle():
			g.vars[p] = variable{name: name}
			out = append(out, "void* "+name)
		default:
			t := g.ctype(p.Type)
			g.vars[p] = variable{name: name}
			out = append(out, g.pre.typ(t)+" "+name)
		}
		info.params = append(info.params, paramInfo{p, name})
	}
	return out
}

func indexSet(a ir.Attr) map[int]bool {
	m := map[int]bool{}
	l, _ := a.(ir.List)
	for _, x := range l {
		if n, ok := ir.AttrInt(x); ok {
			m[int(n)] = true
		}
	}
	return m
}

// threadIndices names the launch axes that the kernel uses. Axes of one tag
// share a name.
func (g *gen) threadIndices() {
	block := "blockIdx"
	if g.facts.raster != nil {
		block = g.raster(g.facts.raster)
	}
	byTag := map[string]string{}
	for _, a := range g.facts.threads {
		iv, ok := a.Node.(*ir.IterVar)
		if !ok {
			g.at = a.Org
			g.fail("a launch axis without an iteration variable")
		}
		if !g.facts.used[iv.Var] {
			g.vars[iv.Var] = variable{name: "0"}
			continue
		}
		if n := byTag[iv.Tag]; n != "" {
			g.vars[iv.Var] = variable{name: n}
			continue
		}
		val, ok := launchAxes[iv.Tag]
		if !ok {
			g.at = a.Org
			g.fail("launch axis %q is not one of blockIdx.x to threadIdx.z", iv.Tag)
		}
		if strings.HasPrefix(val, "blockIdx") {
			val = block + strings.TrimPrefix(val, "blockIdx")
		}
		n := g.names.fresh(iv.Var.Name)
		byTag[iv.Tag] = n
		g.vars[iv.Var] = variable{name: n}
		g.emit("const %s %s = %s;", g.ctype(iv.Var.Type).name, n, val)
	}
}

var launchAxes = map[string]string{
	"blockIdx.x": "blockIdx.x", "blockIdx.y": "blockIdx.y", "blockIdx.z": "blockIdx.z",
	"threadIdx.x": "threadIdx.x", "threadIdx.y": "threadIdx.y", "threadIdx.z": "threadIdx.z",
}

// raster declares the block index that a threadblock swizzle remaps.
func (g *gen) raster(c *ir.Call) string {
	if len(c.Args) < 2 {
		g.fail("threadblock_swizzle_pattern needs a name and a panel size")
	}
	name, _ := c.Args[0].(*ir.StringImm)
	size, ok := ir.AsInt(c.Args[1])
	if name == nil || !ok || size < 1 {
		g.fail("threadblock_swizzle_pattern needs a name and a panel size")
	}
	fn := ""
	switch name.Value {
	case "rasterization2DRow":
		g.pre.use("raster_row")
		fn = "raster_rows"
	case "rasterization2DColumn":
		g.pre.use("raster_column")
		fn = "raster_columns"
	default:
		g.fail("unknown threadblock swizzle %q", name.Value)
	}
	v := g.names.fresh("block")
	g.emit("const dim3 %s = %s<%d>();", v, fn, size)
	return v
}

// dynamicAlign is the alignment of dynamic shared memory: what TMA and wgmma
// ask for with the widest swizzle.
const dynamicAlign = 1024

// sharedArrays declares the block's shared memory, which lives as long as the
// kernel wherever it is allocated.
func (g *gen) sharedArrays(info *kernelInfo) {
	var dyn *ir.AllocBuffer
	for _, a := range g.facts.allocs {
		g.at = a.Org
		b := a.Buffer
		n := int64(1)
		for _, d := range b.Shape {
			v, ok := ir.AsInt(d)
			if !ok {
				g.fail("shared buffer %s has a size that is not constant", b.Name)
			}
			n *= v
		}
		t := g.pre.typ(g.ctype(b.Type))
		switch b.Scope() {
		case "shared.dyn":
			if dyn != nil {
				g.fail("two dynamic shared buffers, %s and %s: MergeSharedMemoryAllocations must run first", dyn.Buffer.Name, b.Name)
			}
			dyn = a
			// All kernels of a module share the name's declaration.
			name := g.names.fresh(b.Name)
			for g.dynamic[name] != "" && g.dynamic[name] != t {
				name = g.names.fresh(b.Name)
			}
			g.dynamic[name] = t
			g.vars[b.Data] = variable{name: name, elem: b.Type, array: true}
			g.emit("extern __shared__ __align__(%d) %s %s[];", dynamicAlign, t, name)
			if info.smem == 0 {
				info.smem = n * int64(b.Type.Bytes())
			}
		default:
			name := g.names.fresh(b.Name)
			align := 16
			if g.facts.tma && b.Scope() == "shared" {
				align = dynamicAlign
			}
			g.vars[b.Data] = variable{name: name, elem: b.Type, array: true}
			info.static += n * int64(b.Type.Bytes())
			if b.Scope() == "shared.barrier" {
				g.emit("__shared__ %s %s[%d];", t, name, n)
			} else {
				g.emit("__shared__ __align__(%d) %s %s[%d];", align, t, name, n)
			}
		}
	}
	g.at = g.fn.Org
}

// ctype is the CUDA type of a data type; it fails where there is none.
func (g *gen) ctype(t ir.DType) ctype {
	c, ok := ctypeOf(t)
	if !ok {
		g.fail("%s has no CUDA type", t)
	}
	return c
}

// output joins prelude, kernels and the launch comment.
func (g *gen) output(m *ir.IRModule, kernels []*ir.PrimFunc) (*pipeline.Output, error) {
	var all []line
	add := func(text string, org ir.Span) {
		for _, t := range strings.Split(text, "\n") {
			all = append(all, line{strings.TrimRight(t, " \t\r"), org})
		}
	}
	for _, part := range [][]string{g.pre.types, g.pre.text} {
		for _, t := range part {
			add(t, ir.Span{})
		}
		if len(part) > 0 {
			add("", ir.Span{})
		}
	}
	for _, n := range headerTypes {
		if g.imported(n[0]) {
			add("typedef "+n[1]+" "+n[0]+";", ir.Span{})
		}
	}
	for _, t := range g.imports {
		add(strings.Trim(t, "\n"), ir.Span{})
		add("", ir.Span{})
	}
	all = append(all, g.lines...)
	add("", ir.Span{})
	spec, err := g.spec()
	if err != nil {
		return nil, err
	}
	for _, t := range g.launchComment(spec) {
		add(t, ir.Span{})
	}
	js, err := specJSON(spec)
	if err != nil {
		return nil, pipeline.Errorf(ir.Span{}, "the launch description is not valid: %v", err)
	}
	out := &pipeline.Output{Launch: js, Flags: CompileFlags(g.ctx.Options)}
	var src strings.Builder
	for _, l := range all {
		src.WriteString(l.text)
		src.WriteByte('\n')
		out.Origins = append(out.Origins, l.org)
	}
	out.Source = src.String()
	return out, nil
}

func quoteC(s string) string {
	// Octal escapes end after three digits, unlike hexadecimal ones.
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '?' || c < ' ' || c >= 0x7f:
			if c == '?' {
				b.WriteByte('?')
				continue
			}
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

package script

import (
	"fmt"
	"strings"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// Options say how to read. The zero value is ready to use.
type Options struct {
	// Old reads the older dialect (tvm.script.tir, see the package comment)
	// even if no import in the text says so.
	Old bool
}

// Parse reads a module, or functions by themselves. When the diagnostics hold
// an error the module is nil.
func Parse(src *ir.Source, o Options) (*ir.IRModule, *diag.List) {
	diags := &diag.List{}
	file := syntax.Parse(src, diags)
	if file == nil || diags.HasErrors() {
		return nil, diags // what a half-read text means is not worth saying
	}
	b := newBuilder(file, diags)
	b.old = o.Old
	m := b.module()
	if diags.HasErrors() {
		return nil, diags
	}
	return m, diags
}

// LostComments are the comments of a text that printing it does not bring
// back: all but the heading, the root block's and the note on metadata.
func LostComments(src *ir.Source) []ir.Span {
	file := syntax.Parse(src, &diag.List{})
	if file == nil {
		return nil
	}
	var lost []ir.Span
	for _, c := range file.Comments {
		switch {
		case strings.HasPrefix(c.Text, importComment), isRootComment(c.Text), c.Text == metadataNote:
		default:
			lost = append(lost, file.Span(c.Loc))
		}
	}
	return lost
}

const (
	importComment = "# from tvm.script import "
	metadataNote  = "# Metadata omitted. Use show_meta=True in script() method to show it."
)

// ParseString reads a module from a text in memory.
func ParseString(name, text string) (*ir.IRModule, error) {
	m, diags := Parse(ir.NewSource(name, text), Options{})
	if err := diags.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// MustParse is ParseString for texts that are part of the program, as in
// tests; it panics on a mistake.
func MustParse(text string) *ir.IRModule {
	m, err := ParseString("text", text)
	if err != nil {
		panic(fmt.Sprintf("script: %v", err))
	}
	return m
}

// ParseExpr reads one expression over the given variables and buffers, which
// are found by their names.
func ParseExpr(src *ir.Source, vars []*ir.Var, bufs []*ir.Buffer) (ir.Expr, error) {
	diags := &diag.List{}
	e := syntax.ParseExpr(src, diags)
	if err := diags.Err(); err != nil {
		return nil, err
	}
	b := newBuilder(&syntax.File{Source: src}, diags)
	for _, v := range vars {
		b.define(v.Name, binding{v: v})
	}
	for _, x := range bufs {
		b.define(x.Name, binding{buf: x})
	}
	x := b.expr(e)
	if err := diags.Err(); err != nil {
		return nil, err
	}
	return x, nil
}

// builder turns a syntax tree into IR.
type builder struct {
	file  *syntax.File
	diags *diag.List

	prefix   string // what names the operators' module: "T"
	irPrefix string // what names the module dialect: "I"
	class    string // name of the module's class
	old      bool   // the text is of the older dialect, tvm.script.tir

	names map[string]*symbol
	undo  []undoEntry

	fn    *ir.PrimFunc
	block *ir.SBlock // the innermost block, for its signature
	funcs map[string]syntax.Loc
	stmts []ir.Stmt // stack for sequences under construction
	exprs []ir.Expr // stack for argument lists under construction
	depth int
	// loopDoms are the domains of the loop variables seen so far.
	loopDoms map[*ir.Var]ir.Range

	binaries slab[ir.Binary]
	calls    slab[ir.Call]
	loads    slab[ir.BufferLoad]
	ints     slab[ir.IntImm]
	list     []ir.Expr
}

func newBuilder(file *syntax.File, diags *diag.List) *builder {
	return &builder{
		file: file, diags: diags, prefix: "T", irPrefix: "I", class: "Module",
		names: map[string]*symbol{}, funcs: map[string]syntax.Loc{},
	}
}

// slab hands out nodes from chunks.
type slab[T any] struct {
	free []T
	size int
}

const maxSlab = 128

func (s *slab[T]) new() *T {
	if len(s.free) == 0 {
		s.size = min(max(2*s.size, 8), maxSlab)
		s.free = make([]T, s.size)
	}
	n := &s.free[0]
	s.free = s.free[1:]
	return n
}

func (b *builder) errorf(n syntax.Node, format string, args ...any) *diag.Diagnostic {
	return b.diags.Errorf(b.file.SpanOf(n), format, args...)
}

func (b *builder) span(n syntax.Node) ir.Span { return b.file.SpanOf(n) }

// module reads the whole file.
func (b *builder) module() *ir.IRModule {
	for _, c := range b.file.Comments {
		if s, ok := strings.CutPrefix(c.Text, importComment); ok {
			b.importDialect(s)
		}
	}
	m := &ir.IRModule{Bare: true}
	var class *syntax.ClassDef
	for _, s := range b.file.Body {
		switch s := s.(type) {
		case *syntax.ImportFrom:
			if s.Module == "tvm.script" || s.Module == "tvm.script.parser" {
				for _, a := range s.Names {
					b.importDialect(a.Name + " as " + a.As)
				}
			}
		case *syntax.Import:
		case *syntax.FuncDef:
			b.addFunc(m, s)
		case *syntax.ClassDef:
			if class != nil {
				d := b.errorf(s, "a second module: expected one class")
				d.Notes = append(d.Notes, diag.Note{Span: b.file.Span(class.NameLoc), Message: "the first one is here"})
				continue
			}
			class = s
			m.Bare = false
			b.class = s.Name
			for _, s := range s.Body {
				switch s := s.(type) {
				case *syntax.FuncDef:
					b.addFunc(m, s)
				case *syntax.Simple:
				default:
					b.errorf(s, "expected a function with @%s.prim_func in the module", b.prefix)
				}
			}
		case *syntax.ExprStmt:
			if _, ok := s.X.(*syntax.Str); ok {
				continue // a docstring
			}
			b.errorf(s, "expected a function with @%s.prim_func or a class with @%s.ir_module", b.prefix, b.irPrefix)
		default:
			b.errorf(s, "expected a function with @%s.prim_func or a class with @%s.ir_module", b.prefix, b.irPrefix)
		}
	}
	if len(m.Funcs) == 0 && !b.diags.HasErrors() {
		b.diags.Errorf(ir.Span{Src: b.file.Source}, "the text holds no function: expected @%s.prim_func", b.prefix)
	}
	return m
}

// importDialect handles "tirx as T" and its like.
func (b *builder) importDialect(s string) {
	name, as, ok := strings.Cut(s, " as ")
	if !ok || as == "" {
		as = name
	}
	switch name {
	case "tirx":
		b.prefix = as
	case "tir":
		b.prefix, b.old = as, true
	case "ir":
		b.irPrefix = as
	}
}

func (b *builder) addFunc(m *ir.IRModule, s *syntax.FuncDef) {
	if first, ok := b.funcs[s.Name]; ok {
		d := b.diags.Errorf(b.file.Span(s.NameLoc), "function %s is defined twice", s.Name)
		d.Notes = append(d.Notes, diag.Note{Span: b.file.Span(first), Message: "the first definition is here"})
		return
	}
	b.funcs[s.Name] = s.NameLoc
	if f := b.function(s); f != nil {
		m.Funcs = append(m.Funcs, f)
	}
}

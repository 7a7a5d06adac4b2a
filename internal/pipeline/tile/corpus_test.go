package tile

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/ir/layout/layouttest"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// sm80 is the target of the reference texts.
var sm80 = &pipeline.Target{
	Kind: "cuda", Arch: "sm_80", MaxThreads: 1024, WarpSize: 32,
	Features: pipeline.Features{AsyncCopy: true, LdMatrix: true, BF16: true, SharedPerBlock: 166912, SharedStatic: 49152},
}

// before returns the module as it stood before a pass of the reference's run.
func before(kernel, pass string) (*ir.IRModule, error) {
	index := -1
	for _, r := range corpus.Passes(kernel, "sm_80") {
		if r.Name == pass {
			index = r.Index
			break
		}
	}
	if index < 0 {
		return nil, fmt.Errorf("no pass %s", pass)
	}
	k := corpus.Lookup(kernel)
	path := k.Input("sm_80")
	for _, s := range corpus.States(kernel, "sm_80") {
		if s.Index < index {
			path = s.Path
		}
	}
	m, err := script.ParseString(path, corpus.Text(path))
	if err != nil {
		return nil, err
	}
	return m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
		return f.WithBody(restoreLayouts(kernel, restoreAxes(f.Body))), nil
	})
}

// restoreAxes gives launch variables back the axis that the texts of some
// stages leave out: the kernels call them bx, by and bz.
func restoreAxes(s ir.Stmt) ir.Stmt {
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		a, ok := s.(*ir.AttrStmt)
		if !ok || a.Key != ir.KeyThreadExtent {
			return s
		}
		iv, ok := a.Node.(*ir.IterVar)
		if !ok || iv.Tag != "" || len(iv.Var.Name) < 2 {
			return s
		}
		named, b := *iv, *a
		named.Tag = "blockIdx." + iv.Var.Name[1:2]
		b.Node = &named
		return &b
	}}
	return r.Stmt(s)
}

// restoreLayouts puts back the user's layouts that the text hides, as the
// corpus states them.
func restoreLayouts(kernel string, s ir.Stmt) ir.Stmt {
	name := kernel + "/sm_80/layouts.tsv"
	if !slices.Contains(corpus.Files("/layouts.tsv"), name) {
		return s
	}
	list, err := layouttest.Parse(corpus.Text(name))
	if err != nil {
		return s
	}
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		b, ok := s.(*ir.SBlock)
		if !ok {
			return s
		}
		d, ok := b.Annotations.Get("layout_map").(*ir.Dict)
		if !ok {
			return s
		}
		out := &ir.Dict{}
		for _, e := range d.Entries {
			name := ""
			switch k := e.Key.(type) {
			case *ir.Var:
				name = k.Name
			case *ir.Buffer:
				name = k.Name
			}
			if _, hidden := e.Value.(*ir.Hidden); hidden {
				for _, l := range list {
					if l.Kind == "buffer" && l.Name == name && l.Map != nil {
						e.Value = l.Map.IR()
					}
				}
			}
			out.Entries = append(out.Entries, e)
		}
		c := *b
		c.Annotations = b.Annotations.With("layout_map", out)
		return &c
	}}
	return r.Stmt(s)
}

func kernels80() []string {
	var out []string
	for _, k := range corpus.Kernels() {
		if k.Has("sm_80") {
			out = append(out, k.Name)
		}
	}
	return out
}

func newContext() *pipeline.Context {
	return &pipeline.Context{Target: sm80, Options: pipeline.Options{}}
}

// inferred runs LayoutInference on a kernel and returns the result with its
// layouts: of buffers by name, of loops in order.
func inferred(kernel string) (*ir.IRModule, map[string]ir.Attr, []loopLayout, error) {
	m, err := before(kernel, "LayoutInference")
	if err != nil {
		return nil, nil, nil, err
	}
	m, err = LayoutInference.Run(newContext(), m)
	if err != nil {
		return nil, nil, nil, err
	}
	bufs := map[string]ir.Attr{}
	var loops []loopLayout
	for _, f := range m.Funcs {
		ir.Walk(f.Body, func(s ir.Stmt) bool {
			switch s := s.(type) {
			case *ir.SBlock:
				if d, ok := s.Annotations.Get("layout_map").(*ir.Dict); ok {
					for _, e := range d.Entries {
						name, _, _ := strings.Cut(e.Key.(*ir.Buffer).Name, "_1")
						bufs[name] = e.Value
					}
				}
			case *ir.For:
				if l := annotatedPart(s); l != nil {
					loops = append(loops, loopLayout{s, l})
				}
			}
			return true
		})
	}
	return m, bufs, loops, nil
}

type loopLayout struct {
	loop *ir.For
	frag *ir.Fragment
}

// sameFrag compares fragments as functions; a nest and its fusion into one
// loop are the same.
func sameFrag(got *ir.Fragment, want *layout.Frag) (*layout.Frag, bool) {
	g, err := layout.FromIR(got, 0, 1)
	if err != nil {
		return nil, false
	}
	if len(g.Shape) != len(want.Shape) && g.Size() == want.Size() {
		flat := layout.Unflatten(layout.Var(0), g.Shape)
		h, err := layout.NewFrag([]int64{g.Size()}, g.Rep, g.ForwardThread(flat, layout.Rep), g.Forward(flat), g.Min, g.Extent)
		if err == nil {
			return g, h.Equal(want)
		}
	}
	return g, g.Equal(want)
}

// differing counts, by kernel, the layouts that differ from the reference's on
// purpose: layer_norm's rows are dealt to one warp each, so that its tiles need 24
// registers instead of 768; the scalar stores of transpose_smem, which its
// padded tile forces, go to neighbouring banks.
var differing = map[string]int{"layer_norm": 8, "transpose_smem": 1}

// TestReferenceLayouts compares what LayoutInference chooses with what the
// reference compiler chose, as functions.
func TestReferenceLayouts(t *testing.T) {
	same, total := 0, 0
	for _, k := range kernels80() {
		if !slices.Contains(corpus.Files("/layouts.tsv"), k+"/sm_80/layouts.tsv") {
			continue
		}
		want, err := layouttest.Parse(corpus.Text(k + "/sm_80/layouts.tsv"))
		if err != nil {
			t.Fatal(err)
		}
		_, bufs, loops, err := inferred(k)
		if err != nil {
			t.Errorf("%s: %v", k, err)
			continue
		}
		nextLoop := 0
		var diffs []string
		for _, e := range want {
			total++
			d := ""
			if e.Kind == "loop" {
				if nextLoop >= len(loops) {
					d = "is missing"
				} else {
					d = difference(loops[nextLoop].frag, e)
				}
				nextLoop++
			} else {
				d = difference(bufs[e.Name], e)
			}
			if d == "" {
				same++
				continue
			}
			diffs = append(diffs, fmt.Sprintf("%s %s %s\n\twant %s", e.Kind, e.Name, d, e.Text))
		}
		if len(diffs) != differing[k] {
			t.Errorf("%s: %d layouts differ, %d do so on purpose:\n%s", k, len(diffs), differing[k], strings.Join(diffs, "\n"))
		}
	}
	t.Logf("%d of %d layouts equal", same, total)
	if total < 280 {
		t.Errorf("only %d layouts compared", total)
	}
}

func difference(got ir.Attr, e layouttest.Entry) string {
	switch a := got.(type) {
	case *ir.Fragment:
		if e.Frag == nil {
			return "is a fragment"
		}
		g, ok := sameFrag(a, e.Frag)
		if !ok {
			return fmt.Sprintf("is %v, %s", g, fragText(g))
		}
	case *ir.Layout:
		m, err := layout.MapFromIR(a)
		if err != nil || e.Map == nil || !m.SameOffsets(e.Map) {
			return "has another layout"
		}
	default:
		return "has no layout"
	}
	return ""
}

func fragText(f *layout.Frag) string {
	if f == nil {
		return ""
	}
	return "thread " + script.ExprString(f.Thread) + " register " + script.ExprString(f.Index)
}

// TestReferenceLowering runs both passes on every kernel of the reference.
func TestReferenceLowering(t *testing.T) {
	var failed []string
	for _, k := range kernels80() {
		m, _, _, err := inferred(k)
		if err != nil {
			failed = append(failed, k+": inference: "+err.Error())
			continue
		}
		out, err := lowerAll(m)
		if err != nil {
			failed = append(failed, k+": "+err.Error())
			continue
		}
		if err := ir.Verify(out); err != nil {
			if in, _ := before(k, "LayoutInference"); ir.Verify(in) != nil {
				t.Logf("%s: the text itself is not well formed: %s", k, firstLine(err.Error()))
				continue
			}
			failed = append(failed, k+": verify: "+firstLine(err.Error()))
			continue
		}
		if left := tileLeft(out); left != "" {
			failed = append(failed, k+": left over: "+left)
		}
	}
	sort.Strings(failed)
	for _, f := range failed {
		t.Error(f)
	}
}

func firstLine(s string) string {
	a, _, _ := strings.Cut(s, "\n")
	return a
}

// lowerAll runs the passes after LayoutInference.
func lowerAll(m *ir.IRModule) (*ir.IRModule, error) {
	var err error
	for _, p := range []*pipeline.Pass{ReducerPlanAndMaterialize, LowerTileOp, VerifyReducerConsumed} {
		if m, err = p.Run(newContext(), m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// tileLeft names something LowerTileOp must not leave.
func tileLeft(m *ir.IRModule) string {
	what := ""
	for _, f := range m.Funcs {
		ir.Walk(f.Body, func(s ir.Stmt) bool {
			if c := tileCall(s); c != nil {
				what = "T." + c.Op.Name
			}
			if l, ok := s.(*ir.For); ok && l.Kind == ir.Parallel {
				what = "a parallel loop"
			}
			if st, ok := s.(*ir.BufferStore); ok && isFragment(st.Buffer) {
				what = "fragment " + st.Buffer.Name
			}
			ir.StmtExprs(s, func(e ir.Expr) bool {
				if ld, ok := e.(*ir.BufferLoad); ok && isFragment(ld.Buffer) {
					what = "fragment " + ld.Buffer.Name
				}
				return true
			})
			return true
		})
	}
	return what
}

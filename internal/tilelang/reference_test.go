package tilelang

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
)

// hideLike replaces what stands in got where want hides something, by what
// hides it, so that the two compare.
func hideLike(got, want *ir.IRModule) *ir.IRModule {
	text := script.Print(want)
	if !strings.Contains(text, "metadata[") {
		return got
	}
	next := map[string]int{}
	hide := func(kind string) *ir.Hidden {
		next[kind]++
		return &ir.Hidden{Type: kind, Index: next[kind] - 1}
	}
	var attr func(a ir.Attr) ir.Attr
	attr = func(a ir.Attr) ir.Attr {
		switch a := a.(type) {
		case *ir.Layout:
			return hide("tl.Layout")
		case *ir.Fragment:
			return hide("tl.Fragment")
		case *ir.Hidden: // a string, as the expression hook left it
			next[a.Type]--
			return hide("ffi.String")
		case *ir.Dict:
			if k, _ := ir.AttrString(a.Get("kind")); k == "WSSchedule" {
				return hide("tl.WSSchedule")
			}
			d := &ir.Dict{}
			for _, e := range a.Entries {
				d.Entries = append(d.Entries, ir.DictEntry{Key: e.Key, Value: attr(e.Value)})
			}
			return d
		}
		return a
	}
	r := &ir.Rewriter{
		PostStmt: func(s ir.Stmt) ir.Stmt {
			if b, ok := s.(*ir.SBlock); ok && b.Annotations != nil {
				c := *b
				c.Annotations = attr(b.Annotations).(*ir.Dict)
				s = &c
			}
			return s
		},
		PostExpr: func(e ir.Expr) ir.Expr {
			if s, ok := e.(*ir.StringImm); ok && strings.Contains(s.Value, "\n") {
				return hide("tirx.StringImm")
			}
			return e
		},
	}
	f := got.Funcs[0]
	return &ir.IRModule{Funcs: []*ir.PrimFunc{f.WithBody(r.Stmt(f.Body))}, Bare: true}
}

func loadWithDiags(t testing.TB, name, text string, o Options) (*Program, string) {
	t.Helper()
	p, diags := Open(ir.NewSource(name, text), o)
	var sb strings.Builder
	for _, d := range diags.All() {
		fmt.Fprintln(&sb, d.Error())
		for _, n := range d.Notes {
			fmt.Fprintf(&sb, "\t%s: %s\n", n.Span, n.Message)
		}
	}
	return p, sb.String()
}

func TestReferenceSources(t *testing.T) {
	debugPanics = true
	equal, same := 0, 0
	for _, k := range corpus.Kernels() {
		arch := "sm_80"
		if !k.Has(arch) {
			arch = "sm_90a"
		}
		want := script.MustParse(corpus.Text(k.Input(arch)))
		p, msg := loadWithDiags(t, k.Name+".py", corpus.Text("src/"+k.Name+".py"), Options{})
		if msg != "" || p == nil || p.Module == nil {
			t.Errorf("%s:\n%s", k.Name, msg)
			continue
		}
		if d := ir.Difference(hideLike(p.Module, want), want, ir.EqualOptions{}); d != "" {
			t.Errorf("%s: %s", k.Name, d)
			continue
		}
		// T.Persistent binds coordinates before the loop they depend on, in
		// TileLang's IR too.
		if err := ir.Verify(p.Module); err != nil && ir.Verify(want) == nil {
			t.Errorf("%s: %v", k.Name, err)
		}
		if script.Print(p.Module) == corpus.Text(k.Input(arch))+"\n" {
			same++
		} else if testing.Verbose() {
			t.Logf("%s prints differently", k.Name)
		}
		equal++
	}
	t.Logf("%d of %d equal, %d print the same text", equal, len(corpus.Kernels()), same)
}

func TestReferenceStyles(t *testing.T) {
	var rows []struct {
		Source, Func, IR string
		Set              map[string]any
	}
	if err := json.Unmarshal([]byte(corpus.Text("styles/index.json")), &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		o := Options{Func: r.Func}
		for k, v := range r.Set {
			o.Set = append(o.Set, Setting{k, fmt.Sprint(v)})
		}
		want := script.MustParse(corpus.Text("styles/" + r.IR))
		p, msg := loadWithDiags(t, r.Source, corpus.Text("styles/"+r.Source), o)
		if msg != "" || p == nil || p.Module == nil {
			t.Errorf("%s:\n%s", r.IR, msg)
			continue
		}
		if d := ir.Difference(hideLike(p.Module, want), want, ir.EqualOptions{}); d != "" {
			t.Errorf("%s: %s", r.IR, d)
		}
	}
}

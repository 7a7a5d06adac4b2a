package scoped

import (
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
)

const text = `# from tvm.script import tirx as T

@T.prim_func
def k(A_handle: T.handle, n: T.int32):
    A = T.match_buffer(A_handle, (1024,), "int32", strides=(1,))
    bx = T.launch_thread("blockIdx.x", 4)
    A[0] = bx
    T.attr(n < 7, "tl.assume", "")
    A[1] = n
    for i in range(8):
        A[2] = i
        if i < n:
            A[3] = i
        else:
            A[4] = n
    x: T.int32 = bx * 3
    A[5] = x
    A[6] = T.if_then_else(n < 3, n, 0)
    while n < 2:
        A[7] = n
    assert 5 < n, ("RuntimeError", ["no"])
    A[8] = n
`

// TestBounds looks at the bounds the analyzer knows of the value of each store.
func TestBounds(t *testing.T) {
	m, err := script.ParseString("k", text)
	if err != nil {
		t.Fatal(err)
	}
	const least, most = -1 << 31, 1<<31 - 1
	want := map[int64][2]int64{
		0: {0, 3}, 1: {least, 6}, 2: {0, 7}, 3: {0, 5}, 4: {least, 6}, 5: {0, 9}, 6: {least, 2}, 7: {least, 1}, 8: {6, 6},
	}
	got := map[int64][2]int64{}
	r := New()
	r.PostStmt = func(s ir.Stmt) ir.Stmt {
		if st, ok := s.(*ir.BufferStore); ok {
			at, _ := ir.AsInt(st.Indices[0])
			b := r.An.Bound(st.Value)
			got[at] = [2]int64{max(b.Min, least), min(b.Max, most)}
			if !r.Span.IsValid() || r.Span != st.Org {
				t.Errorf("store %d: span %v, want %v", at, r.Span, st.Org)
			}
		}
		return s
	}
	body := m.Funcs[0].Body
	if out := r.Stmt(body); out != body {
		t.Errorf("nothing was rewritten, but the body is another one")
	}
	for at, w := range want {
		if got[at] != w {
			t.Errorf("store %d: bounds %v, want %v", at, got[at], w)
		}
	}
	if b := r.An.Bound(m.Funcs[0].Params[1]); b.Min >= 0 || b.Max <= 7 {
		t.Errorf("after the function n is still in %v", b)
	}
}

// TestInline checks that a variable that is inlined is replaced by Simplify,
// and one that is not keeps its name.
func TestInline(t *testing.T) {
	m, err := script.ParseString("k", text)
	if err != nil {
		t.Fatal(err)
	}
	for _, inline := range []bool{false, true} {
		r := New()
		r.Inline = func(*ir.Var, ir.Expr) bool { return inline }
		var value ir.Expr
		r.PostStmt = func(s ir.Stmt) ir.Stmt {
			if st, ok := s.(*ir.BufferStore); ok && ir.IsConst(st.Indices[0], 5) {
				value = r.An.Simplify(st.Value)
			}
			return s
		}
		r.Stmt(m.Funcs[0].Body)
		if _, isVar := value.(*ir.Var); isVar == inline {
			t.Errorf("inline %v: the value is a %T", inline, value)
		}
	}
}

package lifetime_test

import (
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline/lifetime"
)

// TestOf checks which of the buffers a, b and c of a body are in use at the same
// time. Buffers have the innermost loop around their allocation as home.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		name, body string
		overlap    string // pairs
	}{
		{"in turn", `
    a = T.alloc_buffer((8,))
    b = T.alloc_buffer((8,))
    a[0] = A[0]
    A[1] = a[0]
    b[0] = A[1]
    A[2] = b[0]`, ""},
		{"one statement", `
    a = T.alloc_buffer((8,))
    b = T.alloc_buffer((8,))
    a[0] = A[0]
    b[0] = a[0]
    A[2] = b[0]`, "ab"},
		{"loop", `
    a = T.alloc_buffer((8,))
    b = T.alloc_buffer((8,))
    for i in range(4):
        a[0] = A[0]
        A[1] = a[0]
        b[0] = A[1]
        A[2] = b[0]`, "ab"},
		{"home", `
    c = T.alloc_buffer((8,))
    for i in range(4):
        a = T.alloc_buffer((8,))
        b = T.alloc_buffer((8,))
        a[0] = A[0]
        A[1] = a[0]
        b[0] = A[1]
        A[2] = b[0] + c[0]`, "ac bc"},
		{"loop in home", `
    for i in range(4):
        a = T.alloc_buffer((8,))
        b = T.alloc_buffer((8,))
        c = T.alloc_buffer((8,))
        while A[4] < T.float32(3.0):
            a[0] = A[0]
            A[1] = a[0]
            b[0] = A[1]
            A[2] = b[0]
        c[0] = A[2]
        A[2] = c[0]`, "ab"},
		{"branch around home", `
    if A[3] > T.float32(0.0):
        for i in range(4):
            a = T.alloc_buffer((8,))
            a[0] = A[0]
            A[1] = a[0]
    else:
        for i in range(4):
            b = T.alloc_buffer((8,))
            b[0] = A[0]
            A[1] = b[0]`, "ab"},
		{"branch in home", `
    for i in range(4):
        a = T.alloc_buffer((8,))
        b = T.alloc_buffer((8,))
        c = T.alloc_buffer((8,))
        c[0] = A[1]
        A[0] = c[0]
        if A[3] > T.float32(0.0):
            a[0] = A[0]
            A[1] = a[0]
        else:
            b[0] = A[0]
            A[1] = b[0]`, "ab"},
		{"side by side", `
    a = T.alloc_buffer((8,))
    b = T.alloc_buffer((8,))
    with T.attr(0, "kWarpSpecializationScope", 1):
        a[0] = A[0]
        A[1] = a[0]
        b[0] = A[1]
        A[2] = b[0]`, "ab"},
		{"used behind", `
    b = T.alloc_buffer((8,))
    for i in range(4):
        a = T.alloc_buffer((8,))
        a[0] = A[0]
        A[1] = a[0]
        b[0] = A[1]
    A[2] = b[0]`, "ab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := script.ParseString("k.tir", "# from tvm.script import tirx as T\n\n@T.prim_func\ndef k(A_handle: T.handle):\n    A = T.match_buffer(A_handle, (8,), strides=(1,))"+c.body+"\n")
			if err != nil {
				t.Fatal(err)
			}
			homes := map[*ir.Var]*ir.For{}
			names := map[string]*ir.Var{}
			var visit func(s ir.Stmt, loop *ir.For)
			visit = func(s ir.Stmt, loop *ir.For) {
				switch s := s.(type) {
				case *ir.For:
					loop = s
				case *ir.AllocBuffer:
					homes[s.Buffer.Data], names[s.Buffer.Name] = loop, s.Buffer.Data
				}
				ir.Children(s, func(c ir.Stmt) { visit(c, loop) })
			}
			visit(m.Funcs[0].Body, nil)
			lives := lifetime.Of(m.Funcs[0].Body, homes)
			got := ""
			for _, p := range []string{"ab", "ac", "bc"} {
				x, ok1 := lives[names[p[:1]]]
				y, ok2 := lives[names[p[1:]]]
				if ok1 && ok2 && x.Overlaps(y) {
					if got != "" {
						got += " "
					}
					got += p
				}
			}
			if got != c.overlap {
				t.Errorf("in use together: %q, want %q", got, c.overlap)
			}
		})
	}
}

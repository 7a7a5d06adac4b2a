package ir

import "slices"

// Same reports whether two expressions are the same tree over the same
// variables and buffers, so that where both are in scope they have one value as
// long as memory does not change. StructuralEqual, in contrast, takes any two
// variables for equal that stand in the same places.
func Same(a, b Expr) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return StructuralEqual(a, b) && slices.Equal(mentions(a), mentions(b))
}

// mentions are the variables and buffers of an expression, in the order of
// WalkExpr.
func mentions(e Expr) []any {
	var out []any
	WalkExpr(e, func(e Expr) bool {
		switch e := e.(type) {
		case *Var:
			out = append(out, e)
		case *BufferLoad:
			out = append(out, e.Buffer)
		}
		return true
	})
	return out
}

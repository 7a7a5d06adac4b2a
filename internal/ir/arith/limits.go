package arith

import "lowertrace/internal/ir"

// Limits of one query. Beyond them an expression is left as it is, and a proof
// is not found; no result becomes wrong.
const (
	// MaxDepth is the deepest expression that is analysed, in nodes from the
	// root.
	MaxDepth = 1000
	// MaxNodes is the largest expression that is analysed, in nodes counted as
	// a tree.
	MaxNodes = 1 << 16
	// MaxTerms is the most terms an affine sum may have; a longer one is not
	// merged.
	MaxTerms = 128
	// MaxSteps is the most expressions one query works on, those it comes back
	// to under another condition counted again.
	MaxSteps = 1 << 17
	// MaxGrowth bounds a simplified expression: this many times the nodes of
	// the original, and 32 more. A larger result is dropped for the original.
	MaxGrowth = 4
	// MaxFacts is the most constraints that are in force at once; further ones
	// are ignored.
	MaxFacts = 96
	// maxFactDepth is how many constraints are combined in one bound.
	maxFactDepth = 3
	// maxFactSteps is how many combinations of constraints one query tries.
	maxFactSteps = 2048
	// maxCache is the number of expressions whose results are kept between
	// queries of the same scope.
	maxCache = 1 << 14
	// maxMonomials bounds the polynomial that CanProveEqual multiplies out.
	maxMonomials = 256
)

// measure counts the nodes of e as a tree and reports whether e is within
// MaxNodes and MaxDepth. The count stops at the limit.
func measure(e ir.Expr) (nodes int, ok bool) {
	m := measurer{}
	m.visit(e, 0)
	return m.n, !m.over
}

type measurer struct {
	n    int
	over bool
}

func (m *measurer) visit(e ir.Expr, depth int) {
	if e == nil || m.over {
		return
	}
	m.n++
	if m.n > MaxNodes || depth > MaxDepth {
		m.over = true
		return
	}
	depth++
	switch e := e.(type) {
	case *ir.Cast:
		m.visit(e.Value, depth)
	case *ir.Binary:
		m.visit(e.A, depth)
		m.visit(e.B, depth)
	case *ir.Not:
		m.visit(e.A, depth)
	case *ir.Select:
		m.visit(e.Cond, depth)
		m.visit(e.True, depth)
		m.visit(e.False, depth)
	case *ir.Ramp:
		m.visit(e.Base, depth)
		m.visit(e.Stride, depth)
	case *ir.Broadcast:
		m.visit(e.Value, depth)
	case *ir.Shuffle:
		m.list(e.Vectors, depth)
		m.list(e.Indices, depth)
	case *ir.Let:
		m.visit(e.Value, depth)
		m.visit(e.Body, depth)
	case *ir.BufferLoad:
		m.list(e.Indices, depth)
		m.visit(e.Predicate, depth)
	case *ir.Call:
		m.list(e.Args, depth)
	}
}

func (m *measurer) list(es []ir.Expr, depth int) {
	for _, e := range es {
		m.visit(e, depth)
	}
}

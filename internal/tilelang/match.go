package tilelang

import "lowertrace/internal/ir/script/syntax"

// matchStmt runs the first case whose pattern the subject matches. The subject
// must be a Python value: what the kernel computes is not matched.
func (in *interp) matchStmt(f *frame, s *syntax.Match) ctl {
	v := in.eval(f, s.Subject)
	in.locate(s.Subject)
	if u, ok := v.(*unknown); ok {
		panic(in.needKnown(u))
	}
	if isExpr(v) {
		panic(in.errorf("match of %s, which is known only when the kernel runs", in.describe(v)).hint("use if").is("TypeError"))
	}
	for i := range s.Cases {
		c := &s.Cases[i]
		if !in.matches(f, c.Pattern, v) {
			continue
		}
		if c.As != "" {
			in.assignName(f, c.As, v)
		}
		if c.Guard != nil && !in.truth(in.eval(f, c.Guard)) {
			continue
		}
		return in.block(f, c.Body)
	}
	return ctlNext
}

// matches matches a value with a pattern and binds the pattern's names.
func (in *interp) matches(f *frame, p syntax.Expr, v value) bool {
	in.step()
	in.locate(p)
	switch p := p.(type) {
	case *syntax.Name:
		if p.ID != "_" {
			in.assignName(f, p.ID, v)
		}
		return true
	case *syntax.Binary:
		if p.Op == syntax.BitOr {
			return in.matches(f, p.X, v) || in.matches(f, p.Y, v)
		}
	case *syntax.Tuple:
		return in.matchesSequence(f, p.Elts, v)
	case *syntax.List:
		return in.matchesSequence(f, p.Elts, v)
	case *syntax.Call, *syntax.Dict:
		panic(in.errorf("this pattern is not supported").hint("use if"))
	}
	want := in.eval(f, p)
	if isNone(want) || isNone(v) {
		return isNone(want) && isNone(v)
	}
	return in.equal(v, want)
}

// matchesSequence matches a list or tuple with patterns, one of which may be
// starred.
func (in *interp) matchesSequence(f *frame, pats []syntax.Expr, v value) bool {
	var elts []value
	switch x := v.(type) {
	case *list:
		elts = x.elts
	case *tuple:
		elts = x.elts
	default:
		return false
	}
	star := -1
	for i, p := range pats {
		if _, ok := p.(*syntax.Starred); ok {
			star = i
		}
	}
	if star < 0 && len(elts) != len(pats) || star >= 0 && len(elts) < len(pats)-1 {
		return false
	}
	for i, p := range pats {
		k := i
		switch {
		case i == star:
			rest := elts[i : len(elts)-(len(pats)-1-i)]
			in.cells(len(rest))
			if !in.matches(f, p.(*syntax.Starred).X, &list{append([]value(nil), rest...)}) {
				return false
			}
			continue
		case star >= 0 && i > star:
			k = len(elts) - (len(pats) - i)
		}
		if !in.matches(f, p, elts[k]) {
			return false
		}
	}
	return true
}

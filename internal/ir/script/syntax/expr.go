package syntax

import "strings"

// Binding strengths of Python's operators, from loosest to tightest.
const (
	precNone = iota
	precOr
	precAnd
	precNot
	precCompare
	precBitOr
	precBitXor
	precBitAnd
	precShift
	precAdd
	precMul
	precUnary
	precPow
)

var infix = [numTokens]struct {
	op   Op
	prec uint8
}{
	kwOr: {Or, precOr}, kwAnd: {And, precAnd},
	tEQ: {EQ, precCompare}, tNE: {NE, precCompare}, tLT: {LT, precCompare}, tLE: {LE, precCompare},
	tGT: {GT, precCompare}, tGE: {GE, precCompare}, kwIn: {In, precCompare}, kwIs: {Is, precCompare},
	kwNot: {NotIn, precCompare},
	tPipe: {BitOr, precBitOr}, tCaret: {BitXor, precBitXor}, tAmp: {BitAnd, precBitAnd},
	tShl: {LShift, precShift}, tShr: {RShift, precShift},
	tPlus: {Add, precAdd}, tMinus: {Sub, precAdd},
	tStar: {Mul, precMul}, tSlash: {Div, precMul}, tSlashSlash: {FloorDiv, precMul}, tPercent: {Mod, precMul},
	tAt: {MatMul, precMul}, tStarStar: {Pow, precPow},
}

func (p *parser) bad() Expr {
	p.height = 1
	return &BadExpr{Loc{p.tok.pos, p.tok.end}}
}

// enter counts a level of nesting; it reports false beyond the limit.
func (p *parser) enter() bool {
	p.nesting++
	if p.nesting > MaxNesting {
		p.fail(Loc{p.tok.pos, p.tok.end}, "expression is nested more than %d levels deep", MaxNesting)
		p.skipBrackets()
		return false
	}
	return true
}

func (p *parser) leave() { p.nesting-- }

// skipBrackets reads on to the end of the outermost bracket without building
// anything.
func (p *parser) skipBrackets() {
	for len(p.brackets) > 0 && p.tok.kind != tEOF && !(p.tok.lineHead && startsStatement(p.tok.kind)) {
		p.advance()
	}
}

// grow sets the height of a node from the greatest height of its children.
func (p *parser) grow(h int, l Loc) {
	p.height = h + 1
	if p.height >= MaxHeight {
		p.fail(l, "expression has more than %d levels", MaxHeight)
	}
}

// exprList is an expression or a tuple without parentheses; elements may be
// starred.
func (p *parser) exprList() Expr {
	pos := p.tok.pos
	first := p.starOrNamed()
	if p.tok.kind != tComma {
		return first
	}
	base, h := len(p.exprs), p.height
	p.exprs = append(p.exprs, first)
	for p.got(tComma) {
		if !p.startsExpr() {
			break
		}
		p.exprs = append(p.exprs, p.starOrNamed())
		h = max(h, p.height)
	}
	p.height = h + 1
	return &Tuple{p.loc(pos), p.pop(base)}
}

func (p *parser) startsExpr() bool {
	switch p.tok.kind {
	case tName, tInt, tFloat, tString, tLParen, tLBracket, tLBrace, tEllipsis, tMinus, tPlus, tTilde, tStar,
		kwNot, kwLambda, kwNone, kwTrue, kwFalse, kwYield, kwAwait, tBad:
		return true
	}
	return false
}

func (p *parser) starOrNamed() Expr {
	if p.tok.kind == tStar {
		pos := p.tok.pos
		p.advance()
		x := p.binary(precBitOr)
		return &Starred{p.loc(pos), x}
	}
	return p.named()
}

// named is an expression that may be an assignment expression.
func (p *parser) named() Expr {
	x := p.expr()
	if p.tok.kind != tWalrus {
		return x
	}
	name, ok := x.(*Name)
	if !ok {
		p.unexpected("a name before ':='")
		return x
	}
	p.advance()
	v := p.expr()
	return &Walrus{p.loc(name.Pos), name, v}
}

// expr is one expression: conditional, lambda, yield or anything tighter.
func (p *parser) expr() Expr {
	switch p.tok.kind {
	case kwLambda:
		return p.lambda()
	case kwYield:
		return p.yield()
	}
	x := p.binary(precOr)
	if p.inPattern && len(p.brackets) > 0 {
		p.asName() // (A() as a, b): the name of a part is not kept
	}
	if p.tok.kind != kwIf || p.inPattern {
		return x
	}
	h := p.height
	p.advance()
	cond := p.binary(precOr)
	h = max(h, p.height)
	if !p.expect(kwElse, "of a conditional expression") {
		return x
	}
	if !p.enter() {
		return x
	}
	other := p.expr()
	p.leave()
	loc := p.loc(x.Range().Pos)
	p.grow(max(h, p.height), loc)
	return &IfExp{loc, cond, x, other}
}

// binary reads operators that bind at least as tightly as prec.
func (p *parser) binary(prec uint8) Expr {
	var x Expr
	switch k := p.tok.kind; {
	case k == kwNot && prec <= precNot:
		x = p.unary(Not, precNot)
	case k == tMinus:
		x = p.unary(Neg, precUnary)
	case k == tPlus:
		x = p.unary(Plus, precUnary)
	case k == tTilde:
		x = p.unary(Invert, precUnary)
	default:
		x = p.postfix()
	}
	for {
		in := infix[p.tok.kind]
		if in.prec < prec || in.prec == 0 || p.failed {
			return x
		}
		if in.prec == precCompare {
			if in.op == In && p.inFor > 0 && len(p.brackets) < p.inFor {
				return x
			}
			x = p.comparison(x)
			continue
		}
		h := p.height
		p.advance()
		var y Expr
		if in.prec == precPow {
			if !p.enter() {
				return x
			}
			y = p.binary(precUnary)
			p.leave()
		} else {
			y = p.binary(in.prec + 1)
		}
		n := p.mem.binary.new()
		*n = Binary{p.loc(x.Range().Pos), in.op, x, y}
		p.grow(max(h, p.height), n.Loc)
		x = n
	}
}

func (p *parser) unary(op Op, prec uint8) Expr {
	pos := p.tok.pos
	p.advance()
	if !p.enter() {
		return p.bad()
	}
	x := p.binary(prec)
	p.leave()
	loc := p.loc(pos)
	p.grow(p.height, loc)
	return &Unary{loc, op, x}
}

// comparison reads one or more comparisons with x on the left.
func (p *parser) comparison(x Expr) Expr {
	pos, h := x.Range().Pos, p.height
	op := p.compareOp()
	y := p.binary(precCompare + 1)
	h = max(h, p.height)
	if infix[p.tok.kind].prec != precCompare || p.tok.kind == kwNot || p.failed || p.tok.kind == kwIn && p.inFor > 0 && len(p.brackets) < p.inFor {
		n := p.mem.binary.new()
		*n = Binary{p.loc(pos), op, x, y}
		p.grow(h, n.Loc)
		return n
	}
	n := &Compare{X: x, Ops: []Op{op}, Rest: []Expr{y}}
	for infix[p.tok.kind].prec == precCompare && !p.failed && len(n.Ops) < MaxHeight {
		n.Ops = append(n.Ops, p.compareOp())
		n.Rest = append(n.Rest, p.binary(precCompare+1))
		h = max(h, p.height) + 1 // as a left-nested tree
	}
	n.Loc = p.loc(pos)
	p.grow(h, n.Loc)
	return n
}

func (p *parser) compareOp() Op {
	op := infix[p.tok.kind].op
	p.advance()
	switch op {
	case NotIn:
		p.expect(kwIn, "after 'not'")
	case Is:
		if p.got(kwNot) {
			return IsNot
		}
	}
	return op
}

func (p *parser) yield() Expr {
	pos := p.tok.pos
	p.advance()
	n := &Yield{}
	if p.got(kwFrom) {
		n.From = true
		n.X = p.expr()
	} else if p.startsExpr() {
		n.X = p.exprList()
	}
	n.Loc = p.loc(pos)
	return n
}

func (p *parser) lambda() Expr {
	pos := p.tok.pos
	p.advance()
	n := &Lambda{}
	n.Params = p.params(tColon, false)
	if !p.expect(tColon, "after the parameters of a lambda") || !p.enter() {
		return p.bad()
	}
	n.Body = p.expr()
	p.leave()
	n.Loc = p.loc(pos)
	p.grow(p.height, n.Loc)
	return n
}

// params reads parameters up to (not including) a closing token.
func (p *parser) params(end tokenKind, annotations bool) []Param {
	var list []Param
	kind := Positional
	for p.tok.kind != end && !p.failed {
		pos := p.tok.pos
		prm := Param{Kind: kind}
		switch p.tok.kind {
		case tSlash:
			p.advance()
			for i := range list {
				list[i].Kind = PositionalOnly
			}
			if !p.got(tComma) {
				return list
			}
			continue
		case tStar:
			p.advance()
			kind = KeywordOnly
			if p.tok.kind == tComma {
				p.advance()
				continue
			}
			prm.Kind = VarArgs
		case tStarStar:
			p.advance()
			prm.Kind = VarKeywords
		}
		t := p.tok
		if !p.expect(tName, "for a parameter") {
			return list
		}
		prm.Name = p.text[t.pos:t.end]
		if annotations && p.got(tColon) {
			if p.tok.kind == tStar {
				prm.Ann = p.starOrNamed()
			} else {
				prm.Ann = p.expr()
			}
		}
		if p.got(tAssign) {
			prm.Default = p.expr()
		}
		prm.Loc = p.loc(pos)
		list = append(list, prm)
		if !p.got(tComma) {
			break
		}
	}
	return list
}

// postfix is an atom with what follows it: calls, indices, attributes.
func (p *parser) postfix() Expr {
	if p.tok.kind == kwAwait {
		pos := p.tok.pos
		p.advance()
		if !p.enter() {
			return p.bad()
		}
		x := p.postfix()
		p.leave()
		return &Yield{Loc: p.loc(pos), Await: true, X: x}
	}
	x := p.atom()
	for {
		switch p.tok.kind {
		case tDot:
			p.advance()
			t := p.tok
			if !p.expectName("after '.'") {
				return x
			}
			n := p.mem.attrs.new()
			*n = Attr{Loc{x.Range().Pos, t.end}, x, p.text[t.pos:t.end]}
			p.grow(p.height, n.Loc)
			x = n
		case tLParen:
			x = p.call(x)
		case tLBracket:
			x = p.index(x)
		default:
			return x
		}
		if p.failed {
			return x
		}
	}
}

// expectName reads a name; after a dot any keyword may be one.
func (p *parser) expectName(context string) bool {
	if p.tok.kind >= kwAnd {
		p.advance()
		return true
	}
	return p.expect(tName, context)
}

func (p *parser) call(fn Expr) Expr {
	h := p.height
	if !p.enter() {
		return fn
	}
	p.advance()
	n := p.mem.calls.new()
	n.Fn = fn
	base := len(p.exprs)
	for p.tok.kind != tRParen && !p.failed {
		pos := p.tok.pos
		switch p.tok.kind {
		case tStarStar:
			p.advance()
			v := p.expr()
			n.Keywords = append(n.Keywords, Keyword{p.loc(pos), "", v})
		case tStar:
			p.advance()
			v := p.expr()
			p.exprs = append(p.exprs, &Starred{p.loc(pos), v})
		default:
			x := p.named()
			if p.tok.kind == tAssign {
				name, ok := p.dottedName(x)
				if !ok {
					p.unexpected("a name before '='")
					break
				}
				p.advance()
				v := p.expr()
				n.Keywords = append(n.Keywords, Keyword{p.loc(pos), name, v})
				break
			}
			if p.tok.kind == kwFor || p.tok.kind == kwAsync {
				x = p.comprehension(pos, Generator, nil, x)
			}
			if len(n.Keywords) > 0 && n.Keywords[len(n.Keywords)-1].Name != "" {
				p.fail(x.Range(), "positional argument after keyword argument")
			}
			p.exprs = append(p.exprs, x)
		}
		h = max(h, p.height)
		if p.tok.kind != tComma {
			break
		}
		p.advance()
	}
	n.Args = p.pop(base)
	p.expectClose(tRParen, "',' or ')' in the arguments")
	p.leave()
	n.Loc = p.loc(fn.Range().Pos)
	p.grow(h, n.Loc)
	return n
}

// expectClose reads a closing bracket; expected completes the message.
func (p *parser) expectClose(k tokenKind, expected string) bool {
	if p.tok.kind == k {
		p.advance()
		return true
	}
	if p.tok.lineHead && startsStatement(p.tok.kind) && !p.failed && len(p.brackets) > 0 {
		p.failed = true
		p.unclosed(p.brackets[len(p.brackets)-1])
		return false
	}
	p.unexpected(expected)
	return false
}

// dottedName is the text of a name or of names joined by dots.
func (p *parser) dottedName(x Expr) (string, bool) {
	switch x := x.(type) {
	case *Name:
		return x.ID, true
	case *Attr:
		for y := x.X; ; {
			switch z := y.(type) {
			case *Name:
				s := p.text[x.Pos:x.End]
				return s, !strings.ContainsAny(s, " \t\n\r#\\")
			case *Attr:
				y = z.X
				continue
			}
			return "", false
		}
	}
	return "", false
}

func (p *parser) index(x Expr) Expr {
	h := p.height
	if !p.enter() {
		return x
	}
	p.advance()
	n := p.mem.indexes.new()
	n.X = x
	base := len(p.exprs)
	for p.tok.kind != tRBracket && !p.failed {
		p.exprs = append(p.exprs, p.slice())
		h = max(h, p.height)
		if p.tok.kind != tComma {
			break
		}
		p.advance()
	}
	n.Indices = p.pop(base)
	p.expectClose(tRBracket, "',' or ']' in the indices")
	p.leave()
	n.Loc = p.loc(x.Range().Pos)
	if len(n.Indices) == 1 {
		if t, ok := n.Indices[0].(*Tuple); ok && len(t.Elts) == 0 {
			n.Indices = nil // X[()]
		}
	}
	p.grow(h, n.Loc)
	return n
}

func (p *parser) slice() Expr {
	pos := p.tok.pos
	p.height = 1
	var lo Expr
	h := 1
	if p.tok.kind != tColon {
		lo = p.starOrNamed()
		if p.tok.kind != tColon {
			return lo
		}
		h = p.height
	}
	p.advance()
	n := &Slice{Lo: lo}
	if p.tok.kind != tColon && p.tok.kind != tComma && p.tok.kind != tRBracket {
		n.Hi = p.expr()
		h = max(h, p.height)
	}
	if p.got(tColon) && p.tok.kind != tComma && p.tok.kind != tRBracket {
		n.Step = p.expr()
		h = max(h, p.height)
	}
	n.Loc = p.loc(pos)
	p.height = h
	return n
}

func (p *parser) atom() Expr {
	t := p.tok
	loc := Loc{t.pos, t.end}
	p.height = 1
	switch t.kind {
	case tName:
		n := p.mem.names.new()
		*n = Name{loc, p.text[t.pos:t.end]}
		p.advance()
		return n
	case tInt, tFloat:
		n := p.mem.nums.new()
		*n = Num{loc, p.text[t.pos:t.end], t.kind == tFloat}
		p.advance()
		if p.tok.kind == tName && p.tok.pos == t.end {
			p.unexpected("an operator after the number")
		}
		return n
	case tString:
		return p.strings()
	case kwNone, kwTrue, kwFalse, tEllipsis:
		k := None
		switch t.kind {
		case kwTrue:
			k = True
		case kwFalse:
			k = False
		case tEllipsis:
			k = Ellipsis
		}
		p.advance()
		return &Const{loc, k}
	case tLParen:
		return p.parens()
	case tLBracket:
		return p.listDisplay()
	case tLBrace:
		return p.braces()
	case kwLambda, kwNot:
		// Python wants parentheses here.
		p.unexpected("an operand")
		return p.bad()
	}
	p.unexpected("an expression")
	return p.bad()
}

func (p *parser) parens() Expr {
	pos := p.tok.pos
	if !p.enter() {
		return p.bad()
	}
	p.advance()
	var x Expr
	if p.tok.kind == tRParen {
		p.advance()
		p.leave()
		return &Tuple{p.loc(pos), nil}
	}
	inner := p.tok.pos
	x = p.exprList()
	if p.tok.kind == kwFor || p.tok.kind == kwAsync {
		x = p.comprehension(inner, Generator, nil, x)
		p.expectClose(tRParen, "')'")
		p.leave()
		return x
	}
	if !p.expectClose(tRParen, "',' or ')'") {
		p.leave()
		return x
	}
	p.leave()
	if t, ok := x.(*Tuple); ok && t.Pos == inner {
		t.Loc = p.loc(pos)
	}
	return x
}

func (p *parser) listDisplay() Expr {
	pos := p.tok.pos
	if !p.enter() {
		return p.bad()
	}
	p.advance()
	base, h := len(p.exprs), 0
	for p.tok.kind != tRBracket && !p.failed {
		inner := p.tok.pos
		x := p.starOrNamed()
		if p.tok.kind == kwFor || p.tok.kind == kwAsync {
			x = p.comprehension(inner, ListComp, nil, x)
			p.expectClose(tRBracket, "']'")
			p.leave()
			x.(*Comp).Loc = p.loc(pos)
			return x
		}
		p.exprs = append(p.exprs, x)
		h = max(h, p.height)
		if p.tok.kind != tComma {
			break
		}
		p.advance()
	}
	n := &List{Elts: p.pop(base)}
	p.expectClose(tRBracket, "',' or ']' in the list")
	p.leave()
	n.Loc = p.loc(pos)
	p.grow(h, n.Loc)
	return n
}

func (p *parser) braces() Expr {
	pos := p.tok.pos
	if !p.enter() {
		return p.bad()
	}
	defer p.leave()
	p.advance()
	if p.got(tRBrace) {
		return &Dict{Loc: p.loc(pos)}
	}
	h := 0
	var dict *Dict
	var set *Set
	for p.tok.kind != tRBrace && !p.failed {
		var key, value Expr
		if p.tok.kind == tStarStar && set == nil {
			p.advance()
			value = p.expr()
			if dict == nil {
				dict = &Dict{}
			}
		} else {
			key = p.starOrNamed()
			h = max(h, p.height)
			switch {
			case dict != nil || set == nil && p.tok.kind == tColon:
				if !p.expect(tColon, "after a key") {
					continue
				}
				value = p.expr()
				if dict == nil {
					dict = &Dict{}
				}
			case set == nil:
				set = &Set{}
			}
		}
		h = max(h, p.height)
		if p.tok.kind == kwFor || p.tok.kind == kwAsync {
			kind, elt := SetComp, key
			if dict != nil {
				kind, elt = DictComp, value
			} else {
				key = nil
			}
			x := p.comprehension(pos, kind, key, elt)
			p.expectClose(tRBrace, "'}'")
			x.(*Comp).Loc = p.loc(pos)
			return x
		}
		if dict != nil {
			dict.Keys, dict.Values = append(dict.Keys, key), append(dict.Values, value)
		} else {
			set.Elts = append(set.Elts, key)
		}
		if p.tok.kind != tComma {
			break
		}
		p.advance()
	}
	p.expectClose(tRBrace, "',' or '}'")
	loc := p.loc(pos)
	p.grow(h, loc)
	if set != nil {
		set.Loc = loc
		return set
	}
	if dict == nil {
		dict = &Dict{}
	}
	dict.Loc = loc
	return dict
}

// comprehension reads the for and if clauses after an element.
func (p *parser) comprehension(pos int32, kind CompKind, key, elt Expr) Expr {
	n := &Comp{Kind: kind, Key: key, Elt: elt}
	h := p.height
	for (p.tok.kind == kwFor || p.tok.kind == kwAsync) && !p.failed {
		p.got(kwAsync)
		if !p.expect(kwFor, "after 'async'") {
			break
		}
		c := CompFor{Target: p.forTarget()}
		if !p.expect(kwIn, "after the target of 'for'") {
			break
		}
		c.Iter = p.binary(precOr)
		h = max(h, p.height)
		for p.got(kwIf) {
			x := p.binary(precOr)
			if p.tok.kind == tWalrus {
				if name, ok := x.(*Name); ok {
					p.advance()
					v := p.binary(precOr)
					x = &Walrus{p.loc(name.Pos), name, v}
				}
			}
			c.Ifs = append(c.Ifs, x)
			h = max(h, p.height)
		}
		n.Fors = append(n.Fors, c)
	}
	n.Loc = p.loc(pos)
	p.grow(h, n.Loc)
	return n
}

// forTarget reads what a for loop assigns to, up to its `in`.
func (p *parser) forTarget() Expr {
	old := p.inFor
	p.inFor = len(p.brackets) + 1
	defer func() { p.inFor = old }()
	pos := p.tok.pos
	target := func() Expr {
		if p.tok.kind == tStar {
			return p.starOrNamed()
		}
		return p.binary(precBitOr)
	}
	first := target()
	if p.tok.kind != tComma {
		return first
	}
	base := len(p.exprs)
	p.exprs = append(p.exprs, first)
	for p.got(tComma) && p.tok.kind != kwIn && !p.failed {
		p.exprs = append(p.exprs, target())
	}
	return &Tuple{p.loc(pos), p.pop(base)}
}

package syntax

import (
	"slices"

	"lowertrace/internal/diag"
)

// statement reads one line of simple statements or one compound statement.
func (p *parser) statement(out *[]Stmt) {
	p.failed = false
	p.nesting = 0
	p.inFor = 0
	p.exprs = p.exprs[:0]
	t := p.tok
	if t.kind != tIndent {
		p.skipped = false
	}
	switch t.kind {
	case tNewline:
		p.advance()
		return
	case tDedent:
		p.advance() // only after a mistake
		return
	case tIndent:
		if !p.skipped {
			p.errorf(int(p.tok.pos), int(p.tok.pos), "unexpected indentation")
		}
		p.advance()
		p.blockRest(out)
		return
	case kwIf:
		*out = append(*out, p.ifStmt(0))
	case kwFor:
		*out = append(*out, p.forStmt())
	case kwWhile:
		*out = append(*out, p.whileStmt())
	case kwWith:
		*out = append(*out, p.withStmt())
	case kwDef:
		*out = append(*out, p.funcDef(t.pos, nil, false))
	case kwClass:
		*out = append(*out, p.classDef(t.pos, nil))
	case tAt:
		p.decorated(out)
	case kwTry:
		*out = append(*out, p.tryStmt())
	case kwAsync:
		p.async(out)
	case tName:
		if p.text[t.pos:t.end] == "match" && p.isMatch() {
			*out = append(*out, p.matchStmt())
			return
		}
		p.simpleLine(out)
	default:
		p.simpleLine(out)
	}
}

// isMatch tells a match statement from uses of the name: its line ends in a
// colon, and a block that begins with `case` follows.
func (p *parser) isMatch() bool {
	quiet := p.lookahead()
	last := tName
	for {
		t := quiet.next()
		switch t.kind {
		case tEOF, tBad:
			return false
		case tNewline:
			if last != tColon || quiet.next().kind != tIndent {
				return false
			}
			t = quiet.next()
			return t.kind == tName && p.text[t.pos:t.end] == "case"
		}
		last = t.kind
	}
}

func (p *parser) matchStmt() Stmt {
	pos := p.tok.pos
	p.advance()
	n := &Match{Subject: p.exprList()}
	if !p.expect(tColon, "after the subject of 'match'") || !p.expect(tNewline, "") || !p.expect(tIndent, "") {
		p.resync()
		n.Loc = p.loc(pos)
		return n
	}
	for p.tok.kind == tName && p.text[p.tok.pos:p.tok.end] == "case" && !p.diags.Full() {
		c := Case{}
		start := p.tok.pos
		p.failed = false
		p.advance()
		p.inPattern = true
		c.Pattern = p.exprList()
		p.inPattern = false
		c.As = p.asName()
		if p.got(kwIf) {
			c.Guard = p.named()
		}
		c.Body = p.block("after the pattern")
		c.Loc = p.loc(start)
		n.Cases = append(n.Cases, c)
	}
	if p.tok.kind != tDedent && p.tok.kind != tEOF {
		p.failed = false
		p.unexpected("'case'")
	}
	p.blockRest(&[]Stmt{}) // up to the end of the block
	n.Loc = p.loc(pos)
	return n
}

func (p *parser) async(out *[]Stmt) {
	pos := p.tok.pos
	p.advance()
	switch p.tok.kind {
	case kwDef:
		*out = append(*out, p.funcDef(pos, nil, true))
	case kwFor:
		*out = append(*out, p.forStmt())
	case kwWith:
		*out = append(*out, p.withStmt())
	default:
		p.unexpected("'def', 'for' or 'with' after 'async'")
		p.resync()
	}
}

func (p *parser) simpleLine(out *[]Stmt) {
	for {
		s := p.simple()
		if p.failed {
			p.resync()
			return
		}
		*out = append(*out, s)
		if p.tok.kind == tSemicolon {
			p.advance()
			if p.tok.kind != tNewline {
				continue
			}
		}
		break
	}
	if p.tok.kind == tNewline {
		p.advance()
		return
	}
	p.unexpected("the end of the statement")
	p.resync()
}

func (p *parser) simple() Stmt {
	pos := p.tok.pos
	switch p.tok.kind {
	case kwPass:
		p.advance()
		return &Simple{p.loc(pos), Pass}
	case kwBreak:
		p.advance()
		return &Simple{p.loc(pos), Break}
	case kwContinue:
		p.advance()
		return &Simple{p.loc(pos), Continue}
	case kwReturn:
		p.advance()
		var v Expr
		if p.startsExpr() {
			v = p.exprList()
		}
		return &Return{p.loc(pos), v}
	case kwAssert:
		p.advance()
		n := &Assert{Cond: p.expr()}
		if p.got(tComma) {
			n.Msg = p.expr()
		}
		n.Loc = p.loc(pos)
		return n
	case kwRaise:
		p.advance()
		n := &Raise{}
		if p.startsExpr() {
			n.X = p.expr()
			if p.got(kwFrom) {
				n.Cause = p.expr()
			}
		}
		n.Loc = p.loc(pos)
		return n
	case kwDel:
		p.advance()
		n := &Delete{}
		switch x := p.exprList().(type) {
		case *Tuple:
			n.Targets = x.Elts
		default:
			n.Targets = []Expr{x}
		}
		n.Loc = p.loc(pos)
		return n
	case kwGlobal, kwNonlocal:
		n := &Global{Nonlocal: p.tok.kind == kwNonlocal}
		p.advance()
		for {
			t := p.tok
			if !p.expect(tName, "") {
				break
			}
			n.Names = append(n.Names, p.text[t.pos:t.end])
			if !p.got(tComma) {
				break
			}
		}
		n.Loc = p.loc(pos)
		return n
	case kwImport:
		return p.importStmt()
	case kwFrom:
		return p.fromImport()
	}
	return p.exprStmt()
}

// exprStmt is an expression or any kind of assignment.
func (p *parser) exprStmt() Stmt {
	pos := p.tok.pos
	x := p.exprList()
	switch p.tok.kind {
	case tColon:
		p.advance()
		n := &AnnAssign{Target: x, Ann: p.expr()}
		p.checkTarget(x, true)
		if p.got(tAssign) {
			n.Value = p.exprList()
		}
		n.Loc = p.loc(pos)
		return n
	case tAugAssign:
		op := p.tok.op
		p.advance()
		p.checkTarget(x, true)
		v := p.exprList()
		return &AugAssign{p.loc(pos), op, x, v}
	case tAssign:
		n := &Assign{Targets: p.targets1(x)}
		for p.got(tAssign) {
			p.checkTarget(x, false)
			x = p.exprList()
			if p.tok.kind == tAssign {
				n.Targets = append(n.Targets, x)
			}
		}
		n.Value = x
		n.Loc = p.loc(pos)
		return n
	}
	return &ExprStmt{p.loc(pos), x}
}

func (p *parser) targets1(x Expr) []Expr {
	base := len(p.exprs)
	p.exprs = append(p.exprs, x)
	return p.pop(base)
}

// checkTarget reports expressions that nothing can be assigned to.
func (p *parser) checkTarget(x Expr, single bool) {
	var list []Expr
	switch x := x.(type) {
	case *Name, *Attr, *Index, *BadExpr:
		return
	case *Starred:
		if !single {
			p.checkTarget(x.X, false)
			return
		}
	case *Tuple:
		list = x.Elts
	case *List:
		list = x.Elts
	}
	if list == nil || single {
		p.fail(x.Range(), "cannot assign to this expression: expected a name, an attribute or an element")
		return
	}
	for _, e := range list {
		p.checkTarget(e, false)
	}
}

func (p *parser) dotted(context string) string {
	t := p.tok
	if !p.expect(tName, context) {
		return ""
	}
	end := t.end
	for p.tok.kind == tDot {
		p.advance()
		end = p.tok.end
		if !p.expectName("after '.'") {
			break
		}
	}
	return p.text[t.pos:end]
}

func (p *parser) importStmt() Stmt {
	pos := p.tok.pos
	p.advance()
	n := &Import{}
	for !p.failed {
		start := p.tok.pos
		a := Alias{Name: p.dotted("of a module")}
		a.As = p.asName()
		a.Loc = p.loc(start)
		n.Names = append(n.Names, a)
		if !p.got(tComma) {
			break
		}
	}
	n.Loc = p.loc(pos)
	return n
}

func (p *parser) asName() string {
	if !p.got(kwAs) {
		return ""
	}
	t := p.tok
	if !p.expect(tName, "after 'as'") {
		return ""
	}
	return p.text[t.pos:t.end]
}

func (p *parser) fromImport() Stmt {
	pos := p.tok.pos
	p.advance()
	n := &ImportFrom{}
	for p.tok.kind == tDot || p.tok.kind == tEllipsis {
		n.Level += int(p.tok.end - p.tok.pos)
		p.advance()
	}
	if n.Level == 0 || p.tok.kind == tName {
		n.Module = p.dotted("of a module")
	}
	if !p.expect(kwImport, "after the module's name") {
		return n
	}
	start := p.tok.pos
	if p.got(tStar) {
		n.Names = []Alias{{Loc: p.loc(start), Name: "*"}}
		n.Loc = p.loc(pos)
		return n
	}
	paren := p.got(tLParen)
	for !p.failed {
		t := p.tok
		if paren && t.kind == tRParen {
			break
		}
		if !p.expect(tName, "to import") {
			break
		}
		a := Alias{Name: p.text[t.pos:t.end]}
		a.As = p.asName()
		a.Loc = p.loc(t.pos)
		n.Names = append(n.Names, a)
		if !p.got(tComma) {
			break
		}
	}
	if paren {
		p.expectClose(tRParen, "',' or ')' in the names to import")
	}
	n.Loc = p.loc(pos)
	return n
}

// block reads ": NEWLINE INDENT statements DEDENT", or simple statements on
// the same line.
func (p *parser) block(after string) []Stmt {
	if p.failed || !p.expect(tColon, after) {
		p.resync()
		// The block of a head that could not be read is read all the same.
		var body []Stmt
		if p.tok.kind == tIndent {
			p.advance()
			p.blockRest(&body)
		}
		return body
	}
	var body []Stmt
	if p.tok.kind != tNewline {
		p.simpleLine(&body)
		return body
	}
	p.advance()
	if p.tok.kind != tIndent {
		if !p.failed {
			pos := int(p.prevEnd)
			if p.text[max(pos-1, 0):pos] == "\n" {
				pos--
			}
			p.errorf(pos, pos, "expected an indented block %s", after)
		}
		return nil
	}
	p.advance()
	p.blockRest(&body)
	return body
}

// blockRest reads the statements of a block up to its end.
func (p *parser) blockRest(body *[]Stmt) {
	for p.tok.kind != tDedent && p.tok.kind != tEOF && !p.diags.Full() {
		p.statement(body)
	}
	p.got(tDedent)
}

func (p *parser) ifStmt(depth int) Stmt {
	pos := p.tok.pos
	p.failed = false
	p.advance()
	n := &If{Cond: p.named()}
	n.Then = p.block("after the condition")
	switch p.tok.kind {
	case kwElif:
		if depth == MaxElifs {
			p.fail(Loc{p.tok.pos, p.tok.end}, "more than %d branches in one 'if'", MaxElifs)
			p.skipBranches()
			break
		}
		n.Else = []Stmt{p.ifStmt(depth + 1)}
	case kwElse:
		p.failed = false
		p.advance()
		n.Else = p.block("after 'else'")
	}
	n.Loc = Loc{pos, max(pos, p.prevEnd)}
	return n
}

// skipBranches reads the rest of an if without keeping it.
func (p *parser) skipBranches() {
	for p.tok.kind == kwElif || p.tok.kind == kwElse {
		p.failed = false
		if !p.got(kwElse) {
			p.advance()
			p.named()
		}
		p.block("after the condition")
	}
}

func (p *parser) elseBlock() []Stmt {
	if p.tok.kind != kwElse {
		return nil
	}
	p.failed = false
	p.advance()
	return p.block("after 'else'")
}

func (p *parser) forStmt() Stmt {
	pos := p.tok.pos
	p.advance()
	n := &For{Target: p.forTarget()}
	p.checkTarget(n.Target, false)
	if p.expect(kwIn, "after the target of 'for'") {
		n.Iter = p.exprList()
	} else {
		n.Iter = p.bad()
	}
	n.Body = p.block("after the head of 'for'")
	n.Else = p.elseBlock()
	n.Loc = p.loc(pos)
	return n
}

func (p *parser) whileStmt() Stmt {
	pos := p.tok.pos
	p.advance()
	n := &While{Cond: p.named()}
	n.Body = p.block("after the condition")
	n.Else = p.elseBlock()
	n.Loc = p.loc(pos)
	return n
}

func (p *parser) withStmt() Stmt {
	pos := p.tok.pos
	p.advance()
	n := &With{}
	if p.tok.kind == tLParen && p.parenthesizedItems() {
		p.advance()
		p.withItems(n, tRParen)
		p.expectClose(tRParen, "',' or ')'")
	} else {
		p.withItems(n, tColon)
	}
	n.Body = p.block("after the head of 'with'")
	n.Loc = p.loc(pos)
	return n
}

func (p *parser) withItems(n *With, end tokenKind) {
	for p.tok.kind != end && !p.failed {
		it := WithItem{Context: p.expr()}
		if p.got(kwAs) {
			it.Target = p.withTarget()
			p.checkTarget(it.Target, false)
		}
		n.Items = append(n.Items, it)
		if !p.got(tComma) {
			break
		}
	}
	if len(n.Items) == 0 {
		p.unexpected("an expression after 'with'")
	}
}

// withTarget is the target after `as`: a comma belongs to the items.
func (p *parser) withTarget() Expr { return p.binary(precBitOr) }

// parenthesizedItems looks ahead: with ( a as b, c as d ): has an `as` within
// the parentheses, and ':' follows them.
func (p *parser) parenthesizedItems() bool {
	quiet := p.lookahead()
	depth, found := len(quiet.brackets), false
	for {
		t := quiet.next()
		if t.kind == tEOF || t.kind == tBad || t.kind == tNewline {
			break
		}
		if t.kind == kwAs && len(quiet.brackets) == depth {
			found = true
		}
		if len(quiet.brackets) < depth {
			found = found && quiet.next().kind == tColon
			break
		}
	}
	return found
}

// lookahead is a lexer that reads on from here and reports nothing.
func (p *parser) lookahead() *lexer {
	quiet := p.lexer
	quiet.diags = &diag.List{}
	quiet.brackets = slices.Clone(quiet.brackets)
	quiet.indents = slices.Clone(quiet.indents)
	quiet.comments = nil
	return &quiet
}

func (p *parser) decorated(out *[]Stmt) {
	pos := p.tok.pos
	var list []Expr
	for p.tok.kind == tAt {
		p.failed = false
		p.advance()
		x := p.named()
		if !p.failed {
			list = append(list, x)
			p.expect(tNewline, "after the decorator")
		}
		if p.failed {
			p.resync()
		}
	}
	p.failed = false
	switch p.tok.kind {
	case kwDef:
		*out = append(*out, p.funcDef(pos, list, false))
	case kwClass:
		*out = append(*out, p.classDef(pos, list))
	case kwAsync:
		p.advance()
		if p.tok.kind == kwDef {
			*out = append(*out, p.funcDef(pos, list, true))
			return
		}
		fallthrough
	default:
		p.unexpected("'def' or 'class' after the decorator")
		p.resync()
	}
}

func (p *parser) funcDef(pos int32, decorators []Expr, async bool) Stmt {
	p.advance()
	n := &FuncDef{Decorators: decorators, Async: async}
	t := p.tok
	n.NameLoc = Loc{t.pos, t.end}
	if p.expect(tName, "for the function") {
		n.Name = p.text[t.pos:t.end]
		if p.expect(tLParen, "after the function's name") {
			n.Params = p.params(tRParen, true)
			p.expectClose(tRParen, "',' or ')' in the parameters")
			if p.got(tArrow) {
				n.Returns = p.expr()
			}
		}
	}
	n.Body = p.block("after the head of 'def'")
	n.Loc = p.loc(pos)
	return n
}

func (p *parser) classDef(pos int32, decorators []Expr) Stmt {
	p.advance()
	n := &ClassDef{Decorators: decorators}
	t := p.tok
	n.NameLoc = Loc{t.pos, t.end}
	if p.expect(tName, "for the class") {
		n.Name = p.text[t.pos:t.end]
		if p.tok.kind == tLParen {
			c := p.call(&Name{n.NameLoc, n.Name}).(*Call)
			n.Bases, n.Keywords = c.Args, c.Keywords
		}
	}
	n.Body = p.block("after the head of 'class'")
	n.Loc = p.loc(pos)
	return n
}

func (p *parser) tryStmt() Stmt {
	pos := p.tok.pos
	p.advance()
	n := &Try{Body: p.block("after 'try'")}
	for p.tok.kind == kwExcept {
		start := p.tok.pos
		p.failed = false
		p.advance()
		h := Handler{}
		p.got(tStar)
		if p.tok.kind != tColon {
			h.Type = p.exprList()
			h.Name = p.asName()
		}
		h.Body = p.block("after 'except'")
		h.Loc = p.loc(start)
		n.Handlers = append(n.Handlers, h)
	}
	n.Else = p.elseBlock()
	if p.tok.kind == kwFinally {
		p.failed = false
		p.advance()
		n.Finally = p.block("after 'finally'")
	}
	if len(n.Handlers) == 0 && n.Finally == nil {
		p.failed = false
		p.fail(Loc{pos, pos + int32(len("try"))}, "'try' without 'except' or 'finally'")
	}
	n.Loc = p.loc(pos)
	return n
}

package script

import "lowertrace/internal/ir"

// useTree says for every variable and buffer of a function which scope of
// the text encloses all its uses. Its nodes are the scopes, as a tree.
type useTree struct {
	parent, depth []int32
	stmts         map[ir.Stmt]int32           // scopes of statements with one body
	branches      map[*ir.IfThenElse][2]int32 // scopes of then and else
	inits         map[*ir.SBlock]int32
	vars          map[*ir.Var]int32
	bufs          map[*ir.Buffer]int32
}

const (
	nodeFunc int32 = 0  // the function itself
	nodeNone int32 = -1 // no scope of the tree
)

// node is the tree's node of an open scope, nodeNone for scopes within
// expressions.
func (t *useTree) node(f *frame) int32 {
	switch f.part {
	case partThen, partElse:
		return t.branches[f.owner.(*ir.IfThenElse)][f.part-partThen]
	case partInit:
		return t.inits[f.owner.(*ir.SBlock)]
	case partNone:
		return nodeNone
	}
	if f.owner == nil {
		return nodeFunc
	}
	if n, ok := t.stmts[f.owner]; ok {
		return n
	}
	return nodeNone
}

func newUseTree(f *ir.PrimFunc) *useTree {
	t := &useTree{
		parent: []int32{nodeNone}, depth: []int32{0},
		stmts: map[ir.Stmt]int32{}, branches: map[*ir.IfThenElse][2]int32{}, inits: map[*ir.SBlock]int32{},
		vars: map[*ir.Var]int32{}, bufs: map[*ir.Buffer]int32{},
	}
	if f == nil {
		return t
	}
	for _, v := range f.Params {
		t.useVar(v, nodeFunc)
	}
	for _, b := range f.BufferMap {
		t.useBuf(b.Buffer, nodeFunc)
	}
	if f.Attrs != nil {
		t.attr(f.Attrs, nodeFunc)
	}
	t.stmt(f.Body, nodeFunc, false)
	return t
}

func (t *useTree) add(parent int32) int32 {
	t.parent = append(t.parent, parent)
	t.depth = append(t.depth, t.depth[parent]+1)
	return int32(len(t.parent) - 1)
}

func (t *useTree) common(a, b int32) int32 {
	for a != b {
		if t.depth[a] >= t.depth[b] {
			a = t.parent[a]
		} else {
			b = t.parent[b]
		}
	}
	return a
}

func (t *useTree) useVar(v *ir.Var, node int32) {
	if v == nil {
		return
	}
	if n, ok := t.vars[v]; ok {
		if n != node {
			t.vars[v] = t.common(n, node)
		}
		return
	}
	t.vars[v] = node
}

// useBuf notes the use of a buffer. Its fields count where it is first used.
func (t *useTree) useBuf(b *ir.Buffer, node int32) {
	if n, ok := t.bufs[b]; ok {
		if n != node {
			t.bufs[b] = t.common(n, node)
		}
		return
	}
	t.bufs[b] = node
	t.useVar(b.Data, node)
	t.exprs(b.Shape, node)
	t.exprs(b.Strides, node)
	t.expr(b.ElemOffset, node)
}

func (t *useTree) exprs(list []ir.Expr, node int32) {
	for _, e := range list {
		t.expr(e, node)
	}
}

func (t *useTree) expr(e ir.Expr, node int32) {
	ir.WalkExpr(e, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Var:
			t.useVar(e, node)
		case *ir.BufferLoad:
			t.useBuf(e.Buffer, node)
		case *ir.Let:
			t.useVar(e.Var, node)
		case *ir.Call:
			for _, a := range e.Attrs {
				t.attr(a.Value, node)
			}
		}
		return true
	})
}

func (t *useTree) attr(a ir.Attr, node int32) {
	switch a := a.(type) {
	case ir.Expr:
		t.expr(a, node)
	case ir.List:
		for _, x := range a {
			t.attr(x, node)
		}
	case *ir.Dict:
		if a == nil {
			return
		}
		for _, e := range a.Entries {
			t.attr(e.Key, node)
			t.attr(e.Value, node)
		}
	case *ir.Buffer:
		t.useBuf(a, node)
	case *ir.IterVar:
		t.useVar(a.Var, node)
		t.expr(a.Dom.Min, node)
		t.expr(a.Dom.Extent, node)
	case *ir.CommReducer:
		t.exprs(a.Result, node)
		t.exprs(a.Identity, node)
	case *ir.Layout:
		t.exprs(a.Shape, node)
		t.exprs(a.Forward, node)
	case *ir.Fragment:
		t.exprs(a.Shape, node)
		t.expr(a.Thread, node)
		t.exprs(a.Index, node)
		t.expr(a.Replicate, node)
	}
}

func (t *useTree) regions(list []ir.BufferRegion, node int32) {
	for _, r := range list {
		t.useBuf(r.Buffer, node)
		for _, d := range r.Region {
			t.expr(d.Min, node)
			t.expr(d.Extent, node)
		}
	}
}

// stmt visits a statement at a node. When it is itself what a branch consists
// of, its scope and the branch's are one.
func (t *useTree) stmt(s ir.Stmt, node int32, branch bool) {
	scope := func(s ir.Stmt) int32 {
		n := node
		if !branch {
			n = t.add(node)
		}
		t.stmts[s] = n
		return n
	}
	switch s := s.(type) {
	case nil:
	case *ir.SeqStmt:
		for _, c := range s.Seq {
			t.stmt(c, node, false)
		}
	case *ir.Bind:
		t.useVar(s.Var, node)
		t.expr(s.Value, node)
	case *ir.AttrStmt:
		n := scope(s)
		t.attr(s.Node, n)
		t.attr(s.Value, n)
		t.stmt(s.Body, n, false)
	case *ir.For:
		n := scope(s)
		t.useVar(s.Var, n)
		// The head is read before the loop's scope opens. (TVM's printer
		// declares within the loop what only its head uses.)
		t.expr(s.Min, node)
		t.expr(s.Extent, node)
		t.expr(s.Step, node)
		if s.Annotations != nil {
			t.attr(s.Annotations, node)
		}
		t.stmt(s.Body, n, false)
	case *ir.While:
		n := scope(s)
		t.expr(s.Cond, n)
		t.stmt(s.Body, n, false)
	case *ir.IfThenElse:
		t.expr(s.Cond, node)
		n := [2]int32{t.add(node), t.add(node)}
		t.branches[s] = n
		t.stmt(s.Then, n[0], true)
		t.stmt(s.Else, n[1], true)
	case *ir.BufferStore:
		t.useBuf(s.Buffer, node)
		t.exprs(s.Indices, node)
		t.expr(s.Value, node)
		t.expr(s.Predicate, node)
	case *ir.Evaluate:
		t.expr(s.Value, node)
	case *ir.Assert:
		t.expr(s.Cond, node)
		t.exprs(s.Message, node)
	case *ir.AllocBuffer:
		t.useBuf(s.Buffer, node)
		if s.Annotations != nil {
			t.attr(s.Annotations, node)
		}
	case *ir.DeclBuffer:
		t.useBuf(s.Buffer, node)
	case *ir.SBlock:
		t.exprs(s.IterValues, node)
		t.expr(s.Predicate, node)
		n := t.add(node)
		t.stmts[s] = n
		for _, iv := range s.IterVars {
			t.attr(iv, n)
		}
		t.regions(s.Reads, n)
		t.regions(s.Writes, n)
		if s.Annotations != nil {
			t.attr(s.Annotations, n)
		}
		for _, b := range s.AllocBuffers {
			t.useBuf(b, n)
		}
		for i := range s.MatchBuffers {
			t.useBuf(s.MatchBuffers[i].Buffer, n)
			t.regions([]ir.BufferRegion{s.MatchBuffers[i].Source}, n)
		}
		if s.Init != nil {
			in := t.add(n)
			t.inits[s] = in
			t.stmt(s.Init, in, true)
		}
		t.stmt(s.Body, n, false)
	}
}

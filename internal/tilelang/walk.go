package tilelang

import "lowertrace/internal/ir/script/syntax"

// walkStmts visits statements and expressions in order; visit returns false to
// stay out of a node's parts.
func walkStmts(list []syntax.Stmt, visit func(syntax.Node) bool) {
	for _, s := range list {
		walkNode(s, visit)
	}
}

func walkExprs(list []syntax.Expr, visit func(syntax.Node) bool) {
	for _, e := range list {
		if e != nil {
			walkNode(e, visit)
		}
	}
}

func walkParams(ps []syntax.Param, visit func(syntax.Node) bool) {
	for _, p := range ps {
		walkExprs([]syntax.Expr{p.Ann, p.Default}, visit)
	}
}

func walkNode(n syntax.Node, visit func(syntax.Node) bool) {
	if !visit(n) {
		return
	}
	exprs := func(list ...syntax.Expr) { walkExprs(list, visit) }
	switch n := n.(type) {
	case *syntax.FString:
		walkExprs(n.Parts, visit)
	case *syntax.FormatField:
		exprs(n.X, n.Spec)
	case *syntax.Attr:
		exprs(n.X)
	case *syntax.Call:
		exprs(n.Fn)
		walkExprs(n.Args, visit)
		for _, k := range n.Keywords {
			exprs(k.Value)
		}
	case *syntax.Index:
		exprs(n.X)
		walkExprs(n.Indices, visit)
	case *syntax.Slice:
		exprs(n.Lo, n.Hi, n.Step)
	case *syntax.Unary:
		exprs(n.X)
	case *syntax.Binary:
		exprs(n.X, n.Y)
	case *syntax.Compare:
		exprs(n.X)
		walkExprs(n.Rest, visit)
	case *syntax.IfExp:
		exprs(n.Cond, n.Then, n.Else)
	case *syntax.Lambda:
		walkParams(n.Params, visit)
		exprs(n.Body)
	case *syntax.Tuple:
		walkExprs(n.Elts, visit)
	case *syntax.List:
		walkExprs(n.Elts, visit)
	case *syntax.Set:
		walkExprs(n.Elts, visit)
	case *syntax.Dict:
		walkExprs(n.Keys, visit)
		walkExprs(n.Values, visit)
	case *syntax.Comp:
		for _, c := range n.Fors {
			exprs(c.Target, c.Iter)
			walkExprs(c.Ifs, visit)
		}
		exprs(n.Key, n.Elt)
	case *syntax.Starred:
		exprs(n.X)
	case *syntax.Walrus:
		exprs(n.Value)
	case *syntax.Yield:
		exprs(n.X)

	case *syntax.ExprStmt:
		exprs(n.X)
	case *syntax.Assign:
		walkExprs(n.Targets, visit)
		exprs(n.Value)
	case *syntax.AugAssign:
		exprs(n.Target, n.Value)
	case *syntax.AnnAssign:
		exprs(n.Target, n.Ann, n.Value)
	case *syntax.Return:
		exprs(n.Value)
	case *syntax.If:
		exprs(n.Cond)
		walkStmts(n.Then, visit)
		walkStmts(n.Else, visit)
	case *syntax.For:
		exprs(n.Target, n.Iter)
		walkStmts(n.Body, visit)
		walkStmts(n.Else, visit)
	case *syntax.While:
		exprs(n.Cond)
		walkStmts(n.Body, visit)
		walkStmts(n.Else, visit)
	case *syntax.With:
		for _, it := range n.Items {
			exprs(it.Context, it.Target)
		}
		walkStmts(n.Body, visit)
	case *syntax.FuncDef:
		walkExprs(n.Decorators, visit)
		walkParams(n.Params, visit)
		walkStmts(n.Body, visit)
	case *syntax.ClassDef:
		walkExprs(n.Decorators, visit)
		walkExprs(n.Bases, visit)
		walkStmts(n.Body, visit)
	case *syntax.Assert:
		exprs(n.Cond, n.Msg)
	case *syntax.Delete:
		walkExprs(n.Targets, visit)
	case *syntax.Raise:
		exprs(n.X, n.Cause)
	case *syntax.Match:
		exprs(n.Subject)
		for _, c := range n.Cases {
			exprs(c.Pattern, c.Guard)
			walkStmts(c.Body, visit)
		}
	case *syntax.Try:
		walkStmts(n.Body, visit)
		for _, h := range n.Handlers {
			exprs(h.Type)
			walkStmts(h.Body, visit)
		}
		walkStmts(n.Else, visit)
		walkStmts(n.Finally, visit)
	}
}

// Package ir is the intermediate representation that every stage shares: the
// tile-level program a user writes, every state between two passes, and the
// thread-level program the code generator prints.
//
// The node names are those of TVM's TIR as TileLang uses it. Three families
// exist: Expr (values), Stmt (effects) and Attr (what annotations hold).
// Nodes are immutable once built: a rewrite makes new nodes where something
// changed and shares the rest, so that "nothing changed" is a pointer
// comparison. Var and Buffer have identity: two variables of one name are two
// variables, and passes that need a fresh one build it.
//
// Scopes are flat. Bind, AllocBuffer and DeclBuffer have no body: what they
// declare lives until the end of the innermost enclosing SeqStmt (or of the
// region that consists of them alone). AttrStmt, For, IfThenElse, While and
// SBlock have bodies, and a declaration inside a body ends with it.
//
// Every statement carries its origin, the span of the input text it came
// from, through every rewrite (see Span).
package ir

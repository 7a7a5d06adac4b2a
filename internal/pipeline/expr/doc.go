// Package expr holds the passes that rewrite expressions: simplification,
// inlining of bindings, index widths, and intrinsics.
//
// One file holds one pass and is named after it.
package expr

const stage = "expr"

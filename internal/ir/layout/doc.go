// Package layout is the algebra of layouts and fragments: how the logical
// indices of a buffer map to physical ones, and how the elements of a register
// tile are spread over the threads of a block.
//
// A Layout maps logical indices to physical indices (shared-memory swizzles,
// padding). A Frag maps logical indices to a set of threads and a register
// number. Both hold expressions over the placeholders Var(0), Var(1), … and
// Rep, and, as their shapes are constant, the table of all their values.
// Every question (is it injective, are two equal, does one contain another,
// what is the inverse) is answered from the table, exactly and without
// proofs; Fit goes the other way, from a table back to an expression.
package layout

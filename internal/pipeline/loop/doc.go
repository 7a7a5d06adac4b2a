// Package loop holds the passes on loops and branches: vectorizing, unrolling,
// unswitching, hoisting, and removing what does nothing.
//
// One file holds one pass and is named after it.
package loop

const stage = "loop"

// Package legalize holds the passes that make what was written canonical and
// check it: targets and launches, negative indices, assumptions, guards of
// memory accesses, and the checkers.
//
// One file holds one pass and is named after it.
package legalize

const stage = "legalize"

// Package textdiff compares two texts line by line, and two lines word by word.
//
// Lines are interned to small integers. Lines that occur on one side only are set aside first (they
// are changes whatever happens to the others), the rest is compared by Myers' algorithm in its
// linear-space, bidirectional form (E. W. Myers, "An O(ND) Difference Algorithm and Its Variations",
// 1986). While that stays within its budget, the result is a shortest edit script. A region that
// exceeds the budget is first cut at its anchors, the lines that occur once on both sides and keep
// their order (the patience rule), and where there is none at the point the search had come closest
// to. Time and memory therefore stay near linear for any input.
//
// Hunks and their lines are gotextdiff's types. Every unified text this package writes can be
// applied with patch.
//
// The package imports nothing of this module, so that recorders as well as renderers may use it.
package textdiff

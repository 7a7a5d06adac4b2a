// Package passtest tests passes on texts: golden files in the txtar format, and
// the texts before and after a pass in the reference corpus.
//
// A golden file holds one case:
//
//	What the case shows, in a sentence or two.
//	target: sm_90a
//	set: tl.disable_safe_memory_legalize=true
//	-- input.tir --
//	...
//	-- want.tir --
//	...
//	-- remarks --
//	...
//
// The lines "target:" and "set:" of the comment are optional; the target is
// sm_80 by default. want.tir is the module after the pass, printed; a module
// the pass leaves alone has the section "unchanged" instead, and one it refuses
// has "error" with the message. Sections after input.tir are written by
// go test -update.
//
// Every case also checks that the pass is well behaved: the result is well
// formed (ir.Verify), prints and parses back, keeps the origin of every
// statement, does not change its input, is the same when the pass runs again
// on the same input, and is the same pointer when nothing changed. Where the
// interpreter can run the case, input and result must compute the same arrays;
// a case for which that is not so by intention (an access out of bounds, which
// the input leaves undefined) says "results: differ" in its comment.
package passtest

// Package arith analyses and simplifies the integer expressions of the IR:
// constant bounds, modular sets, canonical affine sums with floor division and
// remainder, proofs of conditions, symbolic intervals, and iteration maps.
//
// # What a simplification may assume
//
// Simplify(e) has the value of e wherever evaluating e is defined: no
// operation of e overflows its signed type and no divisor is zero. Signed
// arithmetic may be regrouped, so a partial sum of the result may wrap; a wrap
// of a sum whose total fits its type does not change the total (arithmetic
// modulo 2^bits), and no operand of a division, remainder, comparison, minimum
// or maximum is regrouped unless its new value provably fits its type. The one
// exception is stated at Analyzer.AssumeNoOverflow.
//
// Unsigned types wrap by definition: of them only constants and neutral
// elements are folded, and comparisons decided by bounds.
//
// Floating-point constants are folded only where the result is exact in the
// type, so that no rounding mode matters.
//
// # Canonical form
//
// An affine sum prints its terms by descending coefficient (then by descending
// divisor, then in order of first appearance), positive terms first, then the
// constant, with constants on the right of products. A digit of an index x is
// written x % upper // lower. Comparisons use <, <=, == and !=; > and >= are
// turned around, and a signed constant stands on the right of == and !=.
//
// An Analyzer is not safe for concurrent use.
package arith

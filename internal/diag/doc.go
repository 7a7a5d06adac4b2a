// Package diag holds diagnostics as values: what is wrong, where, and what
// would help. Whoever finds a mistake appends a Diagnostic to a List; nobody
// prints on the way. The List is ordered, freed of repetitions and rendered
// once, for a terminal or as JSON.
//
// Messages are in lower case, without a full stop, and say what was expected.
package diag

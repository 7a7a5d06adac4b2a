// Package script is the text of the IR: Parse reads TVMScript, as TVM and
// TileLang print it at any stage, into an ir.IRModule, and Print writes it.
// Printing what was parsed gives the same text, except where the text hides
// data behind metadata[...].
//
// The rules of the text are those of TVM's script printer (release of
// TileLang 0.1.15). Beyond them, layouts and fragments have a spelling of
// their own, T.Layout and T.Fragment, that hides nothing and parses back.
package script

// Package script is the text of the IR: Parse reads TVMScript, as TVM and
// TileLang print it at any stage, into an ir.IRModule, and Print writes it.
// Printing what was parsed gives the same text, except where the text hides
// data behind metadata[...].
//
// The rules of the text are those of TVM's script printer (release of
// TileLang 0.1.15). Beyond them, layouts and fragments have a spelling of
// their own, T.Layout and T.Fragment, that hides nothing and parses back.
//
// # Where the text is not reproduced
//
// Variables that nothing defines are declared in the scope that encloses all
// their uses (T.int32(), T.handle(..), T.Buffer(..)). TVM looks for uses once
// in an expression that several statements share, so its declaration may lie
// deeper than that and be repeated; which expressions were shared cannot be
// told from the text. Three of the 4338 reference texts differ for that
// reason, all of them states of a macro's own function. Texts that hide data
// behind metadata[..] are reproduced, reference included; the data is not
// there to be read (ir.Hidden).
//
// # What is read beyond that
//
// The older dialect (`from tvm.script import tir as T`): T.block, T.reads with
// a list, T.block_attr, T.alloc_buffer as an allocation of the block,
// T.buffer_decl, T.var, T.cast, T.floordiv, buffers as parameters
// (`A: T.Buffer((16,), "float32")`), and the root block that goes without
// saying. Infix operators on constants fold, as they do in TVM; the function
// form (T.Mul(0, 32)) does not.
package script

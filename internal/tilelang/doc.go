// Package tilelang evaluates TileLang's Python source: it runs the Python that
// surrounds a kernel and turns the kernel itself into the IR that TileLang's
// own front end (release 0.1.15) makes of it, without a Python installed.
//
// # How it works
//
// The evaluator walks the syntax tree of ir/script/syntax. Python values and
// IR expressions are both values; an operator with an IR expression on either
// side makes IR, by the rules of TVM's operators (prim.go), any other operates
// on Python values. Functions run in one of two modes. In a kernel body
// (@T.prim_func, @T.macro, the body of an eager @tilelang.jit function)
// statements emit IR: an assignment binds a variable, `if` over an IR condition
// becomes a branch, `for` over T.serial and its like a loop. Anywhere else they
// are plain Python.
//
// A module is run from top to bottom, but leniently: a statement that cannot be
// evaluated (torch, argparse, a benchmark) leaves its targets unknown and is
// complained about only where such a value is needed.
//
// What the file asks of the GPU it runs on (torch.cuda, the driver's number of
// multiprocessors) Options.Arch answers.
//
// What a file imports is Python's own and TileLang's modules as far as they are
// known here, and files beside the kernel's, which Options.Open reads; a module
// that is neither is unknown. A function runs with the names, and the places, of
// the file it stands in.
//
// # Limits
//
// Steps, call depth, the cells of values, the nodes of an expression and the
// number and size of imported files are bounded by the Max... constants, so that
// no file makes the evaluator run away; reaching a bound is an error at the place
// that reached it.
//
// Inside the package a failed evaluation is a panic with *failure, recovered
// at the statement (kernel bodies, where the next statement is tried) or at the
// border of the package.
package tilelang

// Package cuda is the CUDA backend: its targets, the tables that put the
// passes in order, and the code generator.
//
// The generated text compiles alone, with no header and no include path: a
// prelude defines what the kernels use and nothing else (16-bit and 8-bit
// floats, vector arithmetic, and inline PTX for copies, barriers and matrix
// instructions), each kernel follows, and a comment says how to launch it.
// Lines remember the statement they came from (Output.Origins).
package cuda

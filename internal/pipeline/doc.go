// Package pipeline says what a pass is and runs passes in order.
//
// A Pass is a value: a name, one line of documentation, and a function from a
// module to a module. A Pipeline is an ordered table of passes for a target,
// in one of two forms: PassPipeline, one table, or PhasePipeline, named
// phases. Both run every pass through Context.Run, which calls the
// Instruments: recording, timing and printing are observers that no pass
// knows of.
//
// Passes live in the folders below this one, one file each; they import this
// package and ir, never each other. Package cuda puts them in order.
package pipeline

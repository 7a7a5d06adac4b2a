// Package trace keeps what a lowering did: one LowerRecord for each pass, written to a run
// directory as the passes finish and read back from there, from a cut-off run, or from the
// directories other tracers leave behind.
//
// The package knows texts, not IR. A caller prints the module before and after a pass and hands
// both texts to a Recorder; nothing here imports the compiler. The same values serve the terminal
// renderer, the HTML report and the comparison of two runs.
//
//	Recorder        takes records while passes run, nests them, and drives the writer and the observers
//	writer          the run directory: journal.ndjson record by record, trace.json at the end
//	Open            reads a run from a directory, a script directory, trace.json, or a foreign trace
//	UpdateWorkCopy  the generated code a user may edit, and what becomes of that edit
//	Align           pairs the records of two runs and finds the first that diverges
package trace

// Package render shows recorded lowerings to people: on a terminal while the passes run, as the
// comparison of two runs, and as an HTML report.
//
// It knows texts and the trace's records, nothing of the compiler. Color is a value passed in: the
// caller decides it for each stream with ColorMode.Enabled. Nothing here reads the environment, the
// clock or the file system.
//
//	color.go      whether to color, and in what
//	escape.go     control bytes made visible
//	host.go       which lines are host code
//	hunks.go      a colored diff of two texts
//	terminal.go   records as they happen, and the summary
//	compare.go    two runs side by side, in text and as data
//	report.go     the HTML report, appended to record by record
//	report/       the report's page: markup, style and program
package render

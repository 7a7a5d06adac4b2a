// Package source gives tests and benchmarks kernels as modules to lower: those
// of the reference corpus, and extra ones for what that corpus cannot show.
//
// A kernel of the corpus is read from the text that the reference compiler
// printed. Where that text hides something behind metadata (a layout, a string
// with a line break), the kernel's TileLang source is read in its place.
//
// The extra kernels are TileLang sources in testdata, with inputs drawn here
// and results computed here by plain loops: see Extras.
package source

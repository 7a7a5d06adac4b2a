// Package corpus gives tests read access to the reference corpus: 80 kernels as
// an independent compiler (TileLang 0.1.15) lowered them, every intermediate
// text included, with input arrays and the arrays they must produce.
//
// The corpus lies packed in testdata/reference, as two zstd-compressed tar
// archives: texts.tar.zst (about half a megabyte for 30 MB of text, thanks to
// a window as long as the archive) and arrays.tar.zst. They are unpacked into
// memory on first use and stay there for the life of the process. Nothing is
// embedded in a binary: the files are found by walking up from the working
// directory to the module's go.mod, which is where `go test` runs.
//
// Paths inside the corpus:
//
//	src/KERNEL.py                 TileLang source
//	KERNEL/io.json                parameters, sizes, tolerances (see Kernel)
//	KERNEL/ARCH/input.tir         the function before any pass
//	KERNEL/ARCH/passes.tsv        index, phase, name, changed, status of every record
//	KERNEL/ARCH/nested.tsv        records that ran inside another pass
//	KERNEL/ARCH/NN_Pass.tir       text after each pass that changed something
//	KERNEL/ARCH/layouts.tsv       layouts that the texts hide behind metadata[...]; absent where
//	                              there are none
//	KERNEL/ARCH/codegen_input.tir what code generation received
//	KERNEL/ARCH/kernel.cu         the CUDA it made
//	constructs.json               every name, form, attribute, dtype and scope with counts
//	styles/                       other ways to write kernels, with the IR they give
//	foreign-traces/               two run directories of TileLang's own tracer
//	KERNEL/data/NAME.in.npy       input arrays (in Arrays, not in FS)
//	KERNEL/data/NAME.out.npy      expected arrays (in Arrays, not in FS)
//
// bfloat16 and fp8 arrays are stored as float32 arrays of representable values.
package corpus

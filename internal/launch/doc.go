// Package launch describes how the kernels of one generated CUDA source are
// launched: the form of launch.json (docs/launch-json.md), its checks, and the
// evaluation of the sizes in it. It is data only: package gpu carries a
// description out, the code generator makes one.
package launch

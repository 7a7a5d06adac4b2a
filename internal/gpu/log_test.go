package gpu

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLog(t *testing.T) {
	log := `kernel.cu(12): error: identifier "b" is undefined
    a[0] = b;
           ^

codegen.cpp(3): warning #177-D: variable "unused" was declared but never referenced
  int unused;
      ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

kernel.cu(40): error: no instance of overloaded function "f" matches the argument list
            argument types are: (int)
  f(1);
  ^

kernel.cu(2): catastrophic error: cannot open source file "cuda_fp16.h"
  #include <cuda_fp16.h>
                        ^

1 catastrophic error detected in the compilation of "kernel.cu".
Compilation terminated.
ptxas application ptx input, line 20; error   : Not a name of any known instruction: 'wgmma'
ptxas fatal   : Ptx assembly aborted due to errors
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...
nvrtc: error: invalid value for --gpu-architecture (-arch)
`
	want := []Message{
		{File: "kernel.cu", Line: 12, Col: 10, Severity: SevError, Text: `identifier "b" is undefined`, Source: "  a[0] = b;"},
		{File: "codegen.cpp", Line: 3, Col: 5, Severity: SevWarning, Code: "177-D", Text: `variable "unused" was declared but never referenced`, Source: "int unused;"},
		{File: "kernel.cu", Line: 40, Col: 1, Severity: SevError, Text: `no instance of overloaded function "f" matches the argument list argument types are: (int)`, Source: "f(1);"},
		{File: "kernel.cu", Line: 2, Col: 23, Severity: SevError, Text: `cannot open source file "cuda_fp16.h"`, Source: "#include <cuda_fp16.h>"},
		{File: "ptx", Line: 20, Severity: SevError, Text: "Not a name of any known instruction: 'wgmma'"},
		{Severity: SevError, Text: "Ptx assembly aborted due to errors"},
		{Severity: SevWarning, Code: "C7510", Text: "Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..."},
		{Severity: SevError, Text: "invalid value for --gpu-architecture (-arch)"},
	}
	if d := cmp.Diff(want, ParseLog(log)); d != "" {
		t.Errorf("(-want +have)\n%s", d)
	}
	if d := cmp.Diff(want, ParseLog(strings.ReplaceAll(log, "\n", "\r\n"))); d != "" {
		t.Errorf("with carriage returns (-want +have)\n%s", d)
	}
	if got := want[0].String(); got != `kernel.cu:12:10: error: identifier "b" is undefined` {
		t.Errorf("message reads %q", got)
	}
	if got := want[5].String(); got != "error: Ptx assembly aborted due to errors" {
		t.Errorf("message reads %q", got)
	}
}

func TestSplitUsage(t *testing.T) {
	log := `kernel.cu(3): warning #177-D: variable "x" was declared but never referenced
ptxas info    : 24 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'a' for 'sm_80'
ptxas info    : Function properties for a
ptxas         .     64 bytes stack frame, 40 bytes spill stores, 48 bytes spill loads
ptxas info    : Used 255 registers, used 3 barriers, 1024 bytes smem, 380 bytes cmem[0]
ptxas info    : Compile time = 5.5 ms
ptxas info    : Compiling entry function 'b' for 'sm_80'
ptxas info    : Function properties for helper
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for b
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, 352 bytes cmem[0]
ptxas info    : (C7510) Potential Performance Loss: kept
`
	rest, use := splitUsage(log)
	if want := "kernel.cu(3): warning #177-D: variable \"x\" was declared but never referenced\nptxas info    : (C7510) Potential Performance Loss: kept\n"; rest != want {
		t.Errorf("left over %q, want %q", rest, want)
	}
	want := map[string]usage{"a": {255, 64, 40, 48, 3}, "b": {regs: 10}}
	if d := cmp.Diff(want, use, cmp.AllowUnexported(usage{})); d != "" {
		t.Errorf("(-want +have)\n%s", d)
	}
}

func FuzzParseLog(f *testing.F) {
	f.Add("a(1): error: x\n  y\n ^\n")
	f.Add("a(99999999999999999999): error #: x\n\n^")
	f.Fuzz(func(t *testing.T, log string) {
		for _, m := range ParseLog(log) {
			if m.Line < 0 || m.Col < 0 {
				t.Fatalf("message %+v", m)
			}
		}
		splitUsage(log)
	})
}

package passtest

import (
	"errors"
	"fmt"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// robustKernels are kernels whose texts, of all stages, have most forms of the
// IR between them.
var robustKernels = []string{"atomic_zoo", "dynamic_strided_add", "flash_attention_causal", "gemm_persistent", "local_serial_while", "rms_norm", "two_kernels"}

// Robust runs passes on texts of stages they were not made for, as a user may
// with --start-at: a pass must not panic, its errors must be pipeline.Errors,
// and what it makes of a well-formed module must be well formed.
func Robust(t *testing.T, passes ...*pipeline.Pass) {
	t.Helper()
	for _, kernel := range robustKernels {
		for _, arch := range []string{"sm_80", "sm_90a"} {
			paths := []string{kernel + "/" + arch + "/input.tir"}
			for _, s := range corpus.States(kernel, arch) {
				paths = append(paths, s.Path)
			}
			for _, path := range paths {
				m, err := script.ParseString(path, corpus.Text(path))
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				valid := ir.Verify(m) == nil
				for _, p := range passes {
					if msg := robust(p, m, arch, valid); msg != "" {
						t.Errorf("%s on %s: %s", p.Name, path, msg)
					}
				}
			}
		}
	}
}

func robust(p *pipeline.Pass, m *ir.IRModule, arch string, valid bool) (msg string) {
	defer func() {
		if x := recover(); x != nil {
			msg = fmt.Sprintf("panic: %v", x)
		}
	}()
	c := &pipeline.Context{Options: pipeline.Options{}}
	var err error
	if c.Target, err = target(arch); err != nil {
		return err.Error()
	}
	out, err := c.Run(p, m)
	if err != nil {
		var pe *pipeline.Error
		if !errors.As(err, &pe) {
			return fmt.Sprintf("the error is no pipeline.Error: %v", err)
		}
		return ""
	}
	if valid {
		if err := ir.Verify(out); err != nil {
			return fmt.Sprintf("not well formed: %v", err)
		}
	}
	return ""
}

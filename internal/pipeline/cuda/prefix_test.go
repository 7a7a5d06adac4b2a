package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/gpu/gputest"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// prefixKernels are the kernels whose lowering is stopped after every pass and
// done without every pass: one of each family.
var prefixKernels = []string{"softmax", "gemm_f16", "flash_attention", "conv2d_nhwc", "dynamic_shape_gemm"}

// rowKeeper keeps what each row of the table left.
type rowKeeper struct{ mods []*ir.IRModule }

func (k *rowKeeper) Before(*pipeline.Event) {}

func (k *rowKeeper) After(e *pipeline.Event) {
	if e.Depth == 0 && e.Err == nil {
		k.mods = append(k.mods, e.Result)
	}
}

// TestPrefixes checks what a lowering leaves that stops after any pass: the
// module is well formed, its text parses back to an equal tree, and the
// lowering that goes on from the text ends in the same device module.
func TestPrefixes(t *testing.T) {
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	rows := p.Rows()
	for _, name := range prefixKernels {
		t.Run(name, func(t *testing.T) {
			whole := newContext(t, "sm_80")
			keep := &rowKeeper{}
			whole.Instruments = []pipeline.Instrument{keep}
			first := input(t, name, "sm_80")
			last, err := p.Run(whole, first)
			if err != nil {
				t.Fatal(err)
			}
			if len(keep.mods) != len(rows) {
				t.Fatalf("%d of %d rows ran", len(keep.mods), len(rows))
			}
			state := first // the module the table goes on with
			for i, r := range rows {
				m := keep.mods[i]
				if r.Aside == "" {
					state = m
				}
				if err := ir.Verify(m); err != nil {
					t.Fatalf("after %s: %v", r.Label, err)
				}
				back, err := script.ParseString(r.Label+".tir", script.Print(m))
				if err != nil {
					t.Fatalf("after %s: the text does not parse: %v", r.Label, err)
				}
				if d := ir.Difference(m, back, ir.EqualOptions{}); d != "" {
					t.Errorf("after %s: the text parses to another tree: %s", r.Label, d)
				}
				c := newContext(t, "sm_80")
				c.Select.StopAfter = r.Label
				switch stopped, err := p.Run(c, first); {
				case !errors.Is(err, pipeline.ErrStopped):
					t.Errorf("stopped after %s: %v", r.Label, err)
				default:
					if d := ir.Difference(state, stopped, ir.EqualOptions{}); d != "" {
						t.Errorf("stopped after %s: not the module the pass left: %s", r.Label, d)
					}
				}
				if r.Aside != "" || i+1 == len(rows) || i > 0 && keep.mods[i-1] == m {
					continue // the state before it was the same
				}
				c = newContext(t, "sm_80")
				c.Select.StartAt = rows[i+1].Label
				if end, err := p.Run(c, back); err != nil {
					t.Errorf("from the text after %s: %v", r.Label, err)
				} else if d := ir.Difference(last, end, ir.EqualOptions{}); d != "" {
					t.Errorf("from the text after %s: another end: %s", r.Label, d)
				}
			}
		})
	}
}

// TestSkips leaves out each pass of the table by itself. Without an optional
// pass the kernel is still there: the CUDA compiles and the interpreter finds
// the expected arrays and nothing else. Without another one the lowering may
// end, in an error that says where.
func TestSkips(t *testing.T) {
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range prefixKernels {
		t.Run(name, func(t *testing.T) {
			k := corpus.Lookup(name)
			seen := map[string]bool{} // CUDA and device modules already judged
			var refused []string
			for _, r := range p.Rows() {
				c := newContext(t, "sm_80")
				c.Options[OptSourceComments] = false
				c.Select.Skip = []string{r.Label}
				m, out, err := lowerAll(c, p, input(t, name, "sm_80"))
				if err != nil {
					if r.Optional {
						t.Errorf("without %s: %v", r.Label, err)
					} else if !positioned(err) {
						t.Errorf("without %s: an error without a position: %v", r.Label, err)
					}
					refused = append(refused, fmt.Sprintf("%s: %v", r.Label, err))
					continue
				}
				if err := ir.Verify(m); err != nil {
					t.Errorf("without %s: %v", r.Label, err)
				}
				if !r.Optional || seen[out.Source] {
					continue
				}
				seen[out.Source] = true
				if host := c.Aside[AsideHost]; host != nil {
					m = &ir.IRModule{Funcs: slices.Concat(host.Funcs, m.Funcs)}
				}
				if wrong, err := runOne(&k, lowered{r.Label, m, interp.SyncExplicit}); err != nil || wrong != "" {
					t.Errorf("without %s: %s%v", r.Label, wrong, err)
				}
				t.Run(r.Label, func(t *testing.T) { gputest.Compile(t, out.Source, "sm_80") })
			}
			t.Logf("%d different kernels; refused:\n%s", len(seen), strings.Join(refused, "\n"))
		})
	}
}

// lowerAll lowers and prints.
func lowerAll(c *pipeline.Context, p pipeline.Pipeline, m *ir.IRModule) (*ir.IRModule, *pipeline.Output, error) {
	m, err := p.Run(c, m)
	if err != nil {
		return nil, nil, err
	}
	out, err := p.Codegen()(c, m)
	return m, out, err
}

// positioned tells whether an error says where.
func positioned(err error) bool {
	var pe *pipeline.Error
	if errors.As(err, &pe) {
		return pe.Span.IsValid()
	}
	var ve *ir.VerifyError
	return errors.As(err, &ve) && ve.Span.IsValid()
}

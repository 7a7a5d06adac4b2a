package interp_test

import (
	"context"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/judge"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
)

func statsOf(t *testing.T, body string) *interp.Stats {
	t.Helper()
	mod := script.MustParse(kernelText("1", body))
	args, err := interp.Inputs(mod, interp.InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := interp.Run(context.Background(), mod, args, interp.Options{Stats: true, Sync: interp.SyncExplicit, Bounds: interp.BoundsExplicit})
	if err != nil {
		t.Fatal(err)
	}
	return res.Stats
}

func site(t *testing.T, s *interp.Stats, buffer, access string) interp.SiteStats {
	t.Helper()
	for _, x := range s.Sites {
		if x.Buffer == buffer && x.Access == access {
			return x
		}
	}
	t.Fatalf("no %s of %s in %+v", access, buffer, s.Sites)
	return interp.SiteStats{}
}

// TestCoalescing counts the sectors of accesses whose pattern is known.
func TestCoalescing(t *testing.T) {
	for _, c := range []struct {
		index          string
		sectors, ideal int64 // of the 4 warps together
	}{
		{"tx", 16, 16},
		{"tx % 32 * 4", 64, 16},
		{"127 - tx", 16, 16},
		{"0", 4, 4},
		{"tx // 2", 8, 8},
		{"(tx * 8) % 128", 64, 8},
	} {
		x := site(t, statsOf(t, "Out[tx] = A["+c.index+"] + T.Cast(\"float32\", tx)"), "A", "read")
		if c.index == "0" { // the same place for all threads: one lane reads
			if x.Sectors != c.sectors || x.Requests != 4 {
				t.Errorf("A[%s]: %+v", c.index, x)
			}
			continue
		}
		if x.Sectors != c.sectors || x.IdealSectors != c.ideal || x.Requests != 4 || x.Bytes != 512 {
			t.Errorf("A[%s]: %d sectors, ideal %d; want %d and %d (%+v)", c.index, x.Sectors, x.IdealSectors, c.sectors, c.ideal, x)
		}
	}
}

// TestBankConflicts counts the wavefronts of accesses to shared memory whose
// pattern is known.
func TestBankConflicts(t *testing.T) {
	for _, c := range []struct {
		index             string
		wavefronts, ideal int64
	}{
		{"tx", 4, 4},
		{"tx * 2", 8, 4},
		{"tx * 32 % 4096", 128, 4},
		{"tx * 33 % 4096", 4, 4},
		{"tx // 32", 4, 4},
	} {
		s := statsOf(t, "s = T.alloc_buffer((4096,), scope=\"shared\")\ns["+c.index+"] = A[tx]")
		x := site(t, s, "s", "write")
		if x.Wavefronts != c.wavefronts || x.IdealWavefronts != c.ideal {
			t.Errorf("s[%s]: %d wavefronts, ideal %d; want %d and %d", c.index, x.Wavefronts, x.IdealWavefronts, c.wavefronts, c.ideal)
		}
	}
	// 16 bytes of each thread go through in quarters of a warp.
	s := statsOf(t, "s = T.alloc_buffer((512,), scope=\"shared\")\nl = T.alloc_buffer((4,), scope=\"local\")\nfor i in range(4):\n    l[i] = T.float32(0.0)\ns[tx * 4:tx * 4 + 4] = l[0:4]")
	if x := site(t, s, "s", "write"); x.Wavefronts != 16 || x.IdealWavefronts != 16 || x.Bytes != 2048 {
		t.Errorf("vectors: %+v", x)
	}
}

// TestRedundantBarriers has a barrier that orders something, and two where one
// would do.
func TestRedundantBarriers(t *testing.T) {
	s := statsOf(t, "s = T.alloc_buffer((128,), scope=\"shared\")\ns[tx] = A[tx]\nT.tvm_storage_sync(\"shared\")\nOut[tx] = s[127 - tx]\nT.tvm_storage_sync(\"shared\")\nOut[tx] = Out[tx] + T.float32(1.0)")
	if len(s.Barriers) != 2 || s.Barriers[0].Passed != 1 || s.Barriers[0].Needed != 1 || s.Barriers[1].Needed != 0 {
		t.Errorf("%+v", s.Barriers)
	}
	if s.FloatOps != 128 {
		t.Errorf("%d float operations, want 128", s.FloatOps)
	}
}

// TestGEMMStats checks the counts of a matrix product against arithmetic.
func TestGEMMStats(t *testing.T) {
	k := corpus.Lookup("gemm_f16")
	for _, arch := range []string{"sm_80", "sm_90a"} {
		for _, st := range statesOf("gemm_f16", arch) {
			if st.pass != "input" && st.pass != "codegen_input" {
				continue
			}
			res, err := interp.Run(context.Background(), st.module(t), judge.Args(&k), interp.Options{Stats: true, Sync: st.sync, Bounds: st.bounds})
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(2 * 256 * 256 * 256); res.Stats.MatrixOps != want {
				t.Errorf("%s: %d operations, want %d", st.path, res.Stats.MatrixOps, want)
			}
			for _, x := range res.Stats.Sites {
				if x.Wavefronts != x.IdealWavefronts && x.Buffer != "workspace" {
					t.Logf("%s line %d: %s of %s: %d wavefronts, ideal %d", st.path, x.Span.Line(), x.Access, x.Buffer, x.Wavefronts, x.IdealWavefronts)
				}
			}
		}
	}
}

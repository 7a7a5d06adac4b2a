package trace

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
)

// unpack copies a part of the reference corpus to a new directory.
func unpack(t *testing.T, sub string) string {
	t.Helper()
	part, err := fs.Sub(corpus.FS(), sub)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), path.Base(sub))
	if err := os.CopyFS(dir, part); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TileLang's own run directory of a softmax: the same passes, statuses and texts as the reference's
// record of that lowering, which was made another way.
func TestTileLangRunEqualsReference(t *testing.T) {
	traces := unpack(t, "foreign-traces")
	tl, err := Open("run_softmax", OpenOptions{TraceDir: traces})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := Open(unpack(t, "softmax/sm_80"), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if tl.Foreign != ForeignTileLang || tl.Function != "softmax" || tl.Target != "sm_80" || tl.Pipeline != "cuda" ||
		tl.Script != "run_softmax" || tl.State != StateComplete || !strings.HasPrefix(tl.ID, "run_20261201_115841_727105_11953_") {
		t.Errorf("manifest: %+v", tl.Manifest)
	}
	if ref.Foreign != ForeignReference || ref.Function != "softmax" || ref.Target != "sm_80" || ref.Pipeline != "cuda" || ref.State != StateComplete {
		t.Errorf("manifest: %+v", ref.Manifest)
	}
	if len(tl.Records) != 79 || len(ref.Records) != 79 {
		t.Fatalf("%d and %d records", len(tl.Records), len(ref.Records))
	}
	line := func(r *LowerRecord) string {
		return fmt.Sprintf("%d %s/%s %s changed=%v depth=%d parent=%d +%d -%d", r.Index, r.Phase, r.Name, r.Status, r.Changed, r.Depth, r.ParentIndex, r.AddLines, r.DelLines)
	}
	for i := range tl.Records {
		a, b := &tl.Records[i], &ref.Records[i]
		if line(a) != line(b) {
			t.Errorf("tracer    %s\nreference %s", line(a), line(b))
		}
		if !b.HasBefore && b.Depth > 0 {
			continue // not kept: inside a pass that changed something
		}
		if a.BeforeText != b.BeforeText || a.AfterText != b.AfterText {
			t.Errorf("record %d %s: the texts differ", i, a.Name)
		}
	}
	if al := Align(tl, ref); !al.Equal() {
		t.Errorf("first difference at %s", al.Pairs[al.First].Name())
	}
}

func TestTileLangFailedRun(t *testing.T) {
	traces := unpack(t, "foreign-traces")
	run, err := Open(filepath.Join(traces, "fails"), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if run.State != StateFailed || len(run.Records) != 21 || run.Function == "" {
		t.Errorf("%s, %d records, function %q", run.State, len(run.Records), run.Function)
	}
	f := run.Failed()
	if f == nil || f.Name != "LayoutInference" || f.Index != 20 || f.HasAfter || !strings.Contains(f.BeforeText, "T.parallel(48)") {
		t.Fatalf("failed record: %+v", f)
	}
	const want = "Check failed: (StructuralEqual()(it->second.indices, indices)) is false: a: (i, j) and (j, i)\n  --> fails.py:7:1"
	if f.ErrorMsg != want {
		t.Errorf("message %q", f.ErrorMsg)
	}
	// Without its report the run still reads: the empty after file gives the failure away.
	if err := os.Remove(filepath.Join(run.Dir, reportFile)); err != nil {
		t.Fatal(err)
	}
	run, err = Open(run.Dir, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if f := run.Failed(); f == nil || f.Index != 20 || f.ErrorMsg == "" || len(run.Notes) != 1 {
		t.Errorf("without a report: %+v, notes %q", f, run.Notes)
	}
}

// Every lowering of the reference reads; chains of texts are unbroken; what passes.tsv calls changed
// is what the texts say.
func TestReferenceLoweringsRead(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"gemm_f16", "flash_attention", "assert_if", "gemm_warp_specialized"} {
		part, err := fs.Sub(corpus.FS(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(dir, name), part); err != nil {
			t.Fatal(err)
		}
		k := corpus.Lookup(name)
		for _, arch := range k.Archs {
			run, err := Open(filepath.Join(dir, name, arch), OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			table := corpus.Passes(name, arch)
			if len(run.Records) != len(table) || run.Target != arch || run.Function != name {
				t.Errorf("%s/%s: %d records of %d", name, arch, len(run.Records), len(table))
			}
			var last *LowerRecord
			nested := 0
			for i := range run.Records {
				r := &run.Records[i]
				if r.Changed != table[i].Changed {
					t.Errorf("%s/%s %d %s: changed=%v", name, arch, r.Index, r.Name, r.Changed)
				}
				if r.HasBefore && r.Changed != (r.BeforeText != r.AfterText) {
					t.Errorf("%s/%s %d %s: changed=%v against the texts", name, arch, r.Index, r.Name, r.Changed)
				}
				if r.Depth > 0 {
					nested++
					if p := run.Record(r.ParentIndex); p == nil || p.Depth != r.Depth-1 {
						t.Errorf("%s/%s %d %s: parent %d", name, arch, r.Index, r.Name, r.ParentIndex)
					}
					if r.Name == "Simplify" && !r.HasBefore {
						t.Errorf("%s/%s %d Simplify: LetInline's text is not its text before", name, arch, r.Index)
					}
					if r.Name == "LetInline" && r.HasBefore && r.Changed {
						t.Errorf("%s/%s %d LetInline: a text before that nobody kept", name, arch, r.Index)
					}
					continue
				}
				if last != nil && r.Name != "Filter" && r.Status != Codegen && r.BeforeText != last.AfterText {
					t.Errorf("%s/%s %d %s does not start where %s ended", name, arch, r.Index, r.Name, last.Name)
				}
				last = r
			}
			if nested == 0 {
				t.Errorf("%s/%s: no nested records", name, arch)
			}
			if c := run.Records[len(run.Records)-1]; c.Status != Codegen || !strings.Contains(c.AfterText, "__global__") {
				t.Errorf("%s/%s: the last record is %s %s", name, arch, c.Name, c.Status)
			}
		}
	}
	if _, err := Open(filepath.Join(dir, "gemm_f16"), OpenOptions{}); err == nil || !strings.Contains(err.Error(), "sm_80, sm_90a") {
		t.Errorf("a kernel's directory with two lowerings: %v", err)
	}
	// The record beside a script's name of one lowering is found through its directory alone.
	if run, err := Open(filepath.Join(dir, "gemm_warp_specialized"), OpenOptions{}); err != nil || run.Target != "sm_90a" {
		t.Errorf("a kernel's directory with one lowering: %v", err)
	}
}

// A damaged foreign trace is an error with a place, never a panic.
func TestDamagedForeignTraces(t *testing.T) {
	for _, c := range []struct{ file, content, want string }{
		{"passes.tsv", "", "no passes"},
		{"passes.tsv", "x\tp\tN\t0\tcompleted\n", "invalid syntax"},
		{"passes.tsv", "0\tp\n", "passes.tsv:1: 2 fields"},
		{"nested.tsv", "a\tb\tc\n", "invalid syntax"},
	} {
		dir := unpack(t, "softmax/sm_80")
		if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, filepath.Join(dir, c.file), c.content)
		if _, err := Open(dir, OpenOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %q", c.file, c.content, err, c.want)
		}
	}
	dir := unpack(t, "softmax/sm_80")
	if err := os.Remove(filepath.Join(dir, "22_LowerTileOp.tir")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, OpenOptions{}); err == nil || !strings.Contains(err.Error(), "22_LowerTileOp.tir") {
		t.Errorf("a missing text: %v", err)
	}
}

// Wrapped as a module, each kernel's input differs from the text after the first pass by what that
// pass writes: one line of attributes, or one changed.
func TestReferenceInputsWrapAsModules(t *testing.T) {
	n := 0
	for _, k := range corpus.Kernels() {
		for _, arch := range k.Archs {
			input := asModule(corpus.Text(k.Input(arch)))
			bound := corpus.Text(k.Name + "/" + arch + "/03_BindTarget.tir")
			if strings.Contains(input, "metadata[") || strings.Contains(bound, "metadata[") {
				continue
			}
			n++
			if add, del := blockStat(input, bound); add > 1 || del > 1 {
				t.Errorf("%s/%s: +%d -%d", k.Name, arch, add, del)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d lowerings looked at", n)
	}
}

func TestReferenceLoweringsAreListed(t *testing.T) {
	kernel := unpack(t, "softmax")
	for _, dir := range []string{filepath.Dir(kernel), kernel} {
		infos, err := List(dir)
		if err != nil || len(infos) != 2 {
			t.Fatalf("%s: %d runs, %v", dir, len(infos), err)
		}
		if i := infos[0]; i.Script != "softmax" || i.ID != "sm_80" || i.Records != 79 || i.Foreign != ForeignReference || i.Problem != "" {
			t.Errorf("%+v", i)
		}
	}
	if infos, err := List(filepath.Join(kernel, "sm_90a")); err != nil || len(infos) != 1 || infos[0].ID != "sm_90a" {
		t.Errorf("%+v, %v", infos, err)
	}
	if removed, err := Prune(kernel, 1); err != nil || len(removed) != 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
}

package trace

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var safeName = regexp.MustCompile(`^[A-Za-z0-9_+-][A-Za-z0-9_.+-]*$`)

func awkwardNames() []string {
	long := strings.Repeat("LongName", 200)
	return []string{
		"", " ", ".", "..", "../../etc/passwd", "/", "a/b", `a\b`, "a b", "a  b", "a_b", "A_B", "Ab", "aB",
		"con", "CON", "nul.tir", "NUL", "com1", "-", "--", "<img onerror=alert(1)>", "</SCRIPT >", "漢字", "漢子",
		"\x00", "\n", "\xff\xfe", "é", "e\u0301", "x.", ".x", "x:y", "x*y", "x?y", "tab\tname", long, long + "1", long + "2",
		"trace.json", "journal.ndjson", "timing.json", "report.html", "Trace.JSON", "run2_ pipeline", "run2_pipeline", "run2__pipeline",
		"Simplify", "_before", "_after.tir", "P_before",
	}
}

func TestFileNamesAreSafeAndDistinct(t *testing.T) {
	seen := map[string]string{}
	set := newNameSet("report.html", "trace.json")
	folded := map[string]string{"report.html": "reserved", "trace.json": "reserved"}
	for _, n := range awkwardNames() {
		f := fileName(n)
		if !safeName.MatchString(f) || len(f) > maxNameBytes || reservedName(f) || strings.HasSuffix(f, ".") {
			t.Errorf("%q becomes %q", n, f)
		}
		if other, ok := seen[f]; ok {
			t.Errorf("%q and %q both become %q", other, n, f)
		}
		seen[f] = n
		s := set.name(n)
		if other, ok := folded[strings.ToLower(s)]; ok {
			t.Errorf("%q and %q both get %q", other, n, s)
		}
		folded[strings.ToLower(s)] = n
		if !safeName.MatchString(s) || len(s) > maxNameBytes || s != set.name(n) {
			t.Errorf("%q gets %q, then %q", n, s, set.name(n))
		}
	}
	for _, n := range []string{"Simplify", "run2_pipeline", "pipeline_cuda", "a.b", "x+y"} {
		if fileName(n) != n {
			t.Errorf("%q is changed to %q", n, fileName(n))
		}
	}
}

// Passes, phases and stems of any name make a run that lies below its directory and reads back.
func TestAwkwardNamesInARun(t *testing.T) {
	base := t.TempDir()
	names := awkwardNames()
	for i, stem := range names {
		cfg := testConfig(t, filepath.Join(base, "traces"))
		cfg.Stem, cfg.InputKey = stem, stem
		r := NewRecorder(cfg)
		for k := range 3 {
			name, phase := names[(i+k)%len(names)], names[(i*7+k)%len(names)]
			r.End(r.Begin(Pass{Name: name, Phase: phase}, Text{Text: stem}), Text{Text: stem + "x"}, nil, nil)
		}
		r.Finish(Ending{})
		if r.Failed() {
			t.Fatalf("%q: %v", stem, r.Err())
		}
		run, err := Open(r.Dir(), OpenOptions{})
		if err != nil {
			t.Fatalf("%q: %v", stem, err)
		}
		for k := range run.Records {
			rec := &run.Records[k]
			for _, after := range []bool{false, true} {
				if _, edited, err := ReadSnapshot(run, rec, after); edited || err != nil {
					t.Errorf("stem %q, pass %q in %q: edited=%v %v", stem, rec.Name, rec.Phase, edited, err)
				}
			}
		}
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside the trace directory: %v %v", entries, err)
	}
	scripts, err := scriptNames(filepath.Join(base, "traces"))
	if err != nil || len(scripts) != len(names) {
		t.Errorf("%d script directories for %d inputs", len(scripts), len(names))
	}
}

func TestScriptDirectoryClaims(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	claim := func(stem, key string) string {
		t.Helper()
		got, err := ClaimScriptDir(dir, stem, key)
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Base(got)
	}
	py := claim("softmax", InputKey(dir, filepath.Join(dir, "..", "kernels", "softmax.py")))
	tir := claim("softmax", InputKey(dir, filepath.Join(dir, "..", "kernels", "softmax.tir")))
	emb := claim("softmax", EmbeddedKey("softmax"))
	if py != "softmax" || !regexp.MustCompile(`^softmax-[0-9a-f]{8}$`).MatchString(tir) || emb == tir || emb == py {
		t.Errorf("script directories %s, %s, %s", py, tir, emb)
	}
	// The answers stay.
	if again := claim("softmax", InputKey(dir, filepath.Join(dir, "../kernels/./softmax.tir"))); again != tir {
		t.Errorf("%s, then %s", tir, again)
	}
	if again := claim("softmax", EmbeddedKey("softmax")); again != emb {
		t.Errorf("%s, then %s", emb, again)
	}
	if got := claim(StdinStem, StdinKey); got != "stdin" {
		t.Errorf("standard input: %s", got)
	}
	if got := mustRead(t, filepath.Join(dir, ".gitignore")); got != "*\n" {
		t.Errorf(".gitignore: %q", got)
	}
	// A directory that was there keeps its ways.
	old := t.TempDir()
	if _, err := ClaimScriptDir(old, "k", "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(old, ".gitignore")); err == nil {
		t.Error("an existing directory got a .gitignore")
	}
	// No hard links: still one owner each.
	withDisk(brittleDisk{osDisk, func(op, p string) bool { return op == "link" }}, func() {
		a, err1 := ClaimScriptDir(old, "n", "1")
		b, err2 := ClaimScriptDir(old, "n", "2")
		if err1 != nil || err2 != nil || a == b {
			t.Errorf("%s %s %v %v", a, b, err1, err2)
		}
	})
}

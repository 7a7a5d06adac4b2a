package passtest

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// Reference runs a pass on the texts another compiler had before a pass of its
// own, in every lowering for sm_80, and compares the result with the text it
// had after, up to the names of variables.
//
// Where they differ on purpose, or because the other is wrong, the file
// testdata/reference/PASS.txt lists the cases under a reason: a line that begins
// with # gives the reason, the lines after it name cases, KERNEL or KERNEL#k for
// the k-th run of the pass. A difference that is not listed fails the test, and
// so does a listed case that is equal. With -update new cases are put under
// "# unexplained", which itself fails the test until it is explained.
//
// Names are the other compiler's names for the pass, when they differ:
// "pass_fn#4" is the fourth run of an unnamed pass.
func Reference(t *testing.T, p *pipeline.Pass, names ...string) {
	t.Helper()
	ReferenceUpTo(t, p, nil, names...)
}

// ReferenceUpTo is Reference up to what normalize takes away from both texts.
func ReferenceUpTo(t *testing.T, p *pipeline.Pass, normalize func(*ir.IRModule) *ir.IRModule, names ...string) {
	t.Helper()
	ReferenceOn(t, "sm_80", p, normalize, names...)
}

// ReferenceOn is ReferenceUpTo for the lowerings for another architecture; its
// expectations are in testdata/reference/PASS.ARCH.txt.
func ReferenceOn(t *testing.T, arch string, p *pipeline.Pass, normalize func(*ir.IRModule) *ir.IRModule, names ...string) {
	t.Helper()
	if len(names) == 0 {
		names = []string{p.Name}
	}
	file := filepath.Join("testdata", "reference", p.Name+".txt")
	if arch != "sm_80" {
		file = filepath.Join("testdata", "reference", p.Name+"."+arch+".txt")
	}
	listed := readExpectations(t, file)
	equal, total := 0, 0
	different := map[string]string{}
	var order []string
	for _, k := range corpus.Kernels() {
		if !k.Has(arch) {
			continue
		}
		for _, r := range runsOf(k.Name, arch, names) {
			total++
			label := k.Name
			if r.nth > 1 {
				label += "#" + strconv.Itoa(r.nth)
			}
			d := compare(p, r, normalize)
			if d == "" {
				equal++
				if reason, ok := listed[label]; ok {
					if *update {
						delete(listed, label)
					} else {
						t.Errorf("%s: equal now, but listed as different (%s)", label, reason)
					}
				}
				continue
			}
			order = append(order, label)
			different[label] = d
			if _, ok := listed[label]; !ok {
				if *update {
					listed[label] = unexplained
				} else {
					t.Errorf("%s: %s", label, d)
				}
			}
		}
	}
	for label := range listed {
		if _, ok := different[label]; !ok && *update {
			delete(listed, label)
		}
	}
	if *update {
		writeExpectations(t, file, listed)
	}
	for _, label := range order {
		if listed[label] == unexplained {
			t.Errorf("%s: unexplained: %s", label, different[label])
		}
	}
	if total == 0 {
		t.Errorf("no run of %s is in the reference for %s", strings.Join(names, ", "), arch)
	}
	t.Logf("%s: %d of %d texts reproduced", p.Name, equal, total)
}

const unexplained = "unexplained"

// referenceRun is one run of a pass in a lowering of the corpus.
type referenceRun struct {
	kernel, arch  string
	nth           int
	before, after string // paths of the texts
}

// runsOf are the runs of passes of some names that were not part of another
// pass, with the texts around them.
func runsOf(kernel, arch string, names []string) []referenceRun {
	dir := kernel + "/" + arch
	nested := map[int]bool{}
	for _, line := range strings.Split(corpus.Text(dir+"/nested.tsv"), "\n") {
		n, _, _ := strings.Cut(line, "\t")
		if i, err := strconv.Atoi(n); err == nil {
			nested[i] = true
		}
	}
	texts := map[int]string{}
	for _, s := range corpus.States(kernel, arch) {
		texts[s.Index] = s.Path
	}
	at := dir + "/input.tir"
	seen := map[string]int{}
	var out []referenceRun
	for _, r := range corpus.Passes(kernel, arch) {
		if nested[r.Index] {
			continue
		}
		before := at
		after := at
		if p, ok := texts[r.Index]; ok {
			at, after = p, p
		}
		seen[r.Name]++
		for _, n := range names {
			if n == r.Name || n == fmt.Sprintf("%s#%d", r.Name, seen[r.Name]) {
				out = append(out, referenceRun{kernel, arch, seen[r.Name], before, after})
			}
		}
	}
	return out
}

// compare runs the pass and describes how its result differs from the text
// after, "" if it does not.
func compare(p *pipeline.Pass, r referenceRun, normalize func(*ir.IRModule) *ir.IRModule) string {
	m, err := script.ParseString(r.before, corpus.Text(r.before))
	if err != nil {
		return "before: " + err.Error()
	}
	want, err := script.ParseString(r.after, corpus.Text(r.after))
	if err != nil {
		return "after: " + err.Error()
	}
	c := &pipeline.Context{Options: pipeline.Options{}}
	if c.Target, err = target(r.arch); err != nil {
		return err.Error()
	}
	got, err := c.Run(p, m)
	if err != nil {
		return "the pass fails: " + err.Error()
	}
	if normalize != nil {
		got, want = normalize(got), normalize(want)
	}
	for _, m := range []**ir.IRModule{&got, &want} {
		*m = &ir.IRModule{Funcs: (*m).Funcs}
	}
	d := ir.Difference(got, want, ir.EqualOptions{})
	if d != "" && os.Getenv("PASSTEST_DIR") != "" {
		name := filepath.Join(os.Getenv("PASSTEST_DIR"), p.Name+"-"+r.kernel+"-"+strconv.Itoa(r.nth)+"-"+r.arch)
		_ = os.WriteFile(name+".got", []byte(script.Print(got)), 0o666)
		_ = os.WriteFile(name+".want", []byte(script.Print(want)), 0o666)
	}
	return d
}

func readExpectations(t *testing.T, file string) map[string]string {
	t.Helper()
	out := map[string]string{}
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return out
	}
	if err != nil {
		t.Fatal(err)
	}
	reason := ""
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if s, ok := strings.CutPrefix(line, "#"); ok {
			reason = strings.TrimSpace(s)
			continue
		}
		for _, label := range strings.Fields(line) {
			if reason == "" {
				t.Fatalf("%s:%d: %s has no reason", file, i+1, label)
			}
			out[label] = reason
		}
	}
	return out
}

func writeExpectations(t *testing.T, file string, listed map[string]string) {
	t.Helper()
	if len(listed) == 0 {
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return
	}
	byReason := map[string][]string{}
	for label, reason := range listed {
		byReason[reason] = append(byReason[reason], label)
	}
	reasons := make([]string, 0, len(byReason))
	for r := range byReason {
		reasons = append(reasons, r)
	}
	sort.Strings(reasons)
	var sb strings.Builder
	for i, r := range reasons {
		if i > 0 {
			sb.WriteByte('\n')
		}
		fmt.Fprintf(&sb, "# %s\n", r)
		sort.Strings(byReason[r])
		for _, label := range byReason[r] {
			sb.WriteString(label + "\n")
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(sb.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

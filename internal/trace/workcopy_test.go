package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
)

const (
	gen1 = "line 1\nline 2\nline 3\n"
	gen2 = "line 1\nline two\nline 3\n"
	edit = "line 1\nline 2\nline 3, mine\n"
)

// absent marks a file that is not there.
const absent = "\x00absent"

func put(t *testing.T, path, content string) {
	t.Helper()
	if content == absent {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return
	}
	mustWrite(t, path, content)
}

func get(t *testing.T, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		return absent
	}
	return mustRead(t, path)
}

// Every row of the rule, and the situations it does not name: what is found, what is left, what is
// said, what is compiled.
func TestWorkingCopyRule(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	for _, c := range []struct {
		name            string
		x, base, newest string
		state           CopyState
		wantX, wantBase string
		wantBak         string // of X
		wantBaseBak     string
		code            string
		edited          int
		message         string
	}{
		{"nothing there", absent, absent, gen1, CopyInit, gen1, gen1, absent, absent, gen1, 0, "codegen.cpp written"},
		{"X without a baseline", edit, absent, gen1, CopyInitBackup, gen1, gen1, edit, absent, gen1, 0, "kept as codegen.cpp.bak"},
		{"same, same", gen1, gen1, gen1, CopyUnchanged, gen1, gen1, absent, absent, gen1, 0, ""},
		{"same, differs", gen1, gen1, gen2, CopyRegenerated, gen2, gen2, absent, absent, gen2, 0, "follows the new output"},
		{"edited, same", edit, gen1, gen1, CopyPatched, edit, gen1, absent, absent, edit, 1, "1 edited line: it is what is compiled"},
		{"edited to the new output", gen2, gen1, gen2, CopySynced, gen2, gen2, absent, absent, gen2, 0, "it is the baseline now"},
		{"edited and differs", edit, gen1, gen2, CopyConflict, gen2, gen2, edit, gen1, gen2, 1, "your edit is kept as codegen.cpp.bak, the baseline as codegen.cpp.original.bak"},

		{"CRLF is no edit", crlf(gen1), gen1, gen1, CopyUnchanged, crlf(gen1), gen1, absent, absent, crlf(gen1), 0, ""},
		{"CRLF follows the output", crlf(gen1), gen1, gen2, CopyRegenerated, gen2, gen2, absent, absent, gen2, 0, "follows"},
		{"CRLF with an edit", crlf(edit), gen1, gen1, CopyPatched, crlf(edit), gen1, absent, absent, crlf(edit), 1, "1 edited line:"},
		{"no final newline", strings.TrimSuffix(gen1, "\n"), gen1, gen1, CopyUnchanged, strings.TrimSuffix(gen1, "\n"), gen1, absent, absent, strings.TrimSuffix(gen1, "\n"), 0, ""},
		{"white space at the end", gen1 + " \t\n\n", gen1, gen2, CopyRegenerated, gen2, gen2, absent, absent, gen2, 0, "follows"},
		{"white space inside is an edit", "line 1\n\nline 2\nline 3\n", gen1, gen1, CopyPatched, "line 1\n\nline 2\nline 3\n", gen1, absent, absent, "line 1\n\nline 2\nline 3\n", 1, "1 edited line"},
		{"emptied", "", gen1, gen1, CopyRegenerated, gen1, gen1, absent, absent, gen1, 0, "was empty: written anew"},
		{"blanked", " \n\n", gen1, gen2, CopyRegenerated, gen2, gen2, absent, absent, gen2, 0, "was empty: written anew"},
		{"deleted", absent, gen1, gen1, CopyRegenerated, gen1, gen1, absent, absent, gen1, 0, "was missing: written anew"},
		{"deleted, new output", absent, gen1, gen2, CopyRegenerated, gen2, gen2, absent, absent, gen2, 0, "was missing"},
		{"empty without a baseline", "", absent, gen1, CopyInit, gen1, gen1, absent, absent, gen1, 0, "written"},
		{"deleted baseline", edit, absent, gen2, CopyInitBackup, gen2, gen2, edit, absent, gen2, 0, "without a baseline"},
		{"several lines edited", "a\nb\nc\n", gen1, gen1, CopyPatched, "a\nb\nc\n", gen1, absent, absent, "a\nb\nc\n", 3, "3 edited lines"},
		{"lines deleted", "line 1\n", gen1, gen1, CopyPatched, "line 1\n", gen1, absent, absent, "line 1\n", 2, "2 edited lines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			x := filepath.Join(dir, "codegen.cpp")
			put(t, x, c.x)
			put(t, x+".original", c.base)
			put(t, x+".latest", "stale")
			res, err := UpdateWorkCopy(CopyUpdate{ScriptDir: dir, Function: "k", Target: "sm_80", Newest: c.newest})
			if err != nil {
				t.Fatal(err)
			}
			if res.State != c.state || res.Code != c.code || res.Edited != c.edited || res.Path != x {
				t.Errorf("state %q, %d edited, path %s, code %q", res.State, res.Edited, res.Path, res.Code)
			}
			if (c.message == "") != (res.Message == "") || !strings.Contains(res.Message, c.message) {
				t.Errorf("message %q, want %q", res.Message, c.message)
			}
			for _, f := range []struct{ suffix, want string }{
				{"", c.wantX}, {".original", c.wantBase}, {".latest", c.newest}, {".bak", c.wantBak}, {".original.bak", c.wantBaseBak},
			} {
				if got := get(t, x+f.suffix); got != f.want {
					t.Errorf("codegen.cpp%s is %q, want %q", f.suffix, got, f.want)
				}
			}
			if c.state == CopyConflict {
				if want := "diff -u " + x + ".original.bak " + x + ".bak"; res.Command != want {
					t.Errorf("command %q, want %q", res.Command, want)
				}
			} else if res.Command != "" {
				t.Errorf("command %q", res.Command)
			}
			for _, f := range tree(t, dir) {
				if strings.Contains(f, ".tmp") || strings.Contains(f, ".held") {
					t.Errorf("left behind: %s", f)
				}
			}
			// The rule is stable: the same output again changes nothing more.
			again, err := UpdateWorkCopy(CopyUpdate{ScriptDir: dir, Function: "k", Target: "sm_80", Newest: c.newest})
			if err != nil || again.Code != c.code || again.State != CopyUnchanged && again.State != CopyPatched {
				t.Errorf("the second time: %q %q %v", again.State, again.Code, err)
			}
		})
	}
}

// Every edit that conflicts is kept, under the next number.
func TestRepeatedConflictsKeepEveryEdit(t *testing.T) {
	dir := t.TempDir()
	x := filepath.Join(dir, "codegen.cpp")
	update := func(newest string) CopyResult {
		t.Helper()
		res, err := UpdateWorkCopy(CopyUpdate{ScriptDir: dir, Function: "k", Target: "sm_80", Newest: newest})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	update("output 0\n")
	mustWrite(t, x+".original.bak.3", "someone else's") // its number is not free for a pair
	var want []string
	for i := 1; i <= 12; i++ {
		mustWrite(t, x, fmt.Sprintf("edit %d\n", i))
		if res := update(fmt.Sprintf("output %d\n", i)); res.State != CopyConflict || len(res.Backups) != 2 {
			t.Fatalf("conflict %d: %+v", i, res)
		}
		n := i
		if n >= 3 {
			n++
		}
		suffix := ".bak"
		if n > 1 {
			suffix = fmt.Sprintf(".bak.%d", n)
		}
		want = append(want, fmt.Sprintf("%s edit %d", suffix, i))
	}
	var got []string
	for _, w := range want {
		suffix, text, _ := strings.Cut(w, " ")
		n := strings.TrimPrefix(text, "edit ")
		if get(t, x+suffix) == text+"\n" {
			got = append(got, w)
		}
		var k int
		fmt.Sscan(n, &k)
		if b := get(t, x+".original"+suffix); b != fmt.Sprintf("output %d\n", k-1) {
			t.Errorf(".original%s is %q", suffix, b)
		}
	}
	if strings.Join(got, ";") != strings.Join(want, ";") {
		t.Errorf("got %v", got)
	}
}

// Each kernel and target of a file has its own copy, so that an edit of the second takes effect.
func TestOneWorkingCopyPerFunctionAndTarget(t *testing.T) {
	dir := t.TempDir()
	update := func(fn, target, newest string) CopyResult {
		t.Helper()
		res, err := UpdateWorkCopy(CopyUpdate{ScriptDir: dir, Function: fn, Target: target, Newest: newest})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	names := map[string]string{}
	for round := range 2 {
		for _, k := range []struct{ fn, target, file string }{
			{"gemm", "sm_80", "codegen.cpp"},
			{"relu", "sm_80", "codegen.relu.sm_80.cpp"},
			{"gemm", "sm_90a", "codegen.gemm.sm_90a.cpp"},
			{"Relu", "sm_80", ""},
			{"a b", "sm_80", ""},
			{"a  b", "sm_80", ""},
		} {
			key := k.fn + " " + k.target
			res := update(k.fn, k.target, key+"\n")
			name := filepath.Base(res.Path)
			if k.file != "" && name != k.file {
				t.Errorf("%s is kept as %s", key, name)
			}
			if round == 0 {
				names[strings.ToLower(name)] = key
				mustWrite(t, res.Path, key+" edited\n")
			} else if res.State != CopyPatched || res.Code != key+" edited\n" {
				t.Errorf("%s: %q %q", key, res.State, res.Code)
			}
		}
	}
	if len(names) != 6 {
		t.Errorf("files %v", names)
	}
}

func TestWorkingCopyNamesTheCause(t *testing.T) {
	dir := t.TempDir()
	update := func(newest string, settings ...Option) CopyResult {
		t.Helper()
		res, err := UpdateWorkCopy(CopyUpdate{ScriptDir: dir, Function: "k", Target: "sm_80", Newest: newest, Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := update(gen1, Option{"N", "64"}, Option{"M", "1"}); res.Cause != "" {
		t.Errorf("the first run has the cause %q", res.Cause)
	}
	res := update(gen2, Option{"N", "128"}, Option{"K", "2"})
	const want = "N changed from 64 to 128, M was 1 and is not set now, K is now 2"
	if res.State != CopyRegenerated || res.Cause != want || !strings.Contains(res.Message, "because "+want) {
		t.Errorf("%+v", res)
	}
	if res := update(gen1, Option{"N", "128"}, Option{"K", "2"}); res.Cause != "" || strings.Contains(res.Message, "because") {
		t.Errorf("nothing set differently: %+v", res)
	}
}

func TestWorkingCopyAtAPath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out", "my kernel.cu")
	if _, err := UpdateWorkCopy(CopyUpdate{Path: path, Newest: gen1}); err == nil {
		t.Error("a missing directory is no error")
	}
	mustWrite(t, filepath.Join(dir, "out", "other"), "")
	for _, script := range []string{"", filepath.Join(dir, "script")} {
		for i, want := range []CopyState{CopyInit, CopyUnchanged} {
			res, err := UpdateWorkCopy(CopyUpdate{ScriptDir: script, Path: path, Function: "k", Target: "sm_80", Newest: gen1})
			if err != nil || res.State != want || res.Path != path {
				t.Errorf("update %d: %+v %v", i, res, err)
			}
		}
		got := tree(t, filepath.Join(dir, "out"))
		sort.Strings(got)
		if strings.Join(got, ",") != "my kernel.cu,my kernel.cu.latest,my kernel.cu.original,other" {
			t.Errorf("files: %v", got)
		}
		mustWrite(t, path, edit)
		res, err := UpdateWorkCopy(CopyUpdate{ScriptDir: script, Path: path, Function: "k", Target: "sm_80", Newest: gen2})
		if err != nil || res.State != CopyConflict || !strings.Contains(res.Command, "'"+path+".bak'") {
			t.Errorf("%+v %v", res, err)
		}
		for _, s := range []string{"", ".original", ".latest", ".bak", ".original.bak"} {
			put(t, path+s, absent)
		}
	}
	// A copy that can't be read is an error and stays as it is.
	if err := os.MkdirAll(filepath.Join(path, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := UpdateWorkCopy(CopyUpdate{Path: path, Newest: gen1}); err == nil {
		t.Error("a directory is taken for a working copy")
	}
	if _, err := UpdateWorkCopy(CopyUpdate{Newest: gen1}); err == nil {
		t.Error("no place is no error")
	}
}

// A copy that is a link to the user's own file stays one, and its permissions stay.
func TestWorkingCopyKeepsLinkAndPermissions(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(t.TempDir(), "mine.cpp")
	mustWrite(t, real, gen1)
	if err := os.Chmod(real, 0o600); err != nil {
		t.Fatal(err)
	}
	x := filepath.Join(dir, "codegen.cpp")
	if err := os.Symlink(real, x); err != nil {
		t.Skip("no symbolic links here")
	}
	mustWrite(t, real+".original", gen1)
	res, err := UpdateWorkCopy(CopyUpdate{ScriptDir: dir, Function: "k", Target: "sm_80", Newest: gen2})
	if err != nil || res.State != CopyRegenerated {
		t.Fatalf("%+v %v", res, err)
	}
	if target, err := os.Readlink(x); err != nil || target != real || mustRead(t, real) != gen2 {
		t.Errorf("link %q, content %q, %v", target, mustRead(t, real), err)
	}
	if st, _ := os.Stat(real); st.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v", st.Mode())
	}
}

// An editor that saves between our reading and our writing loses nothing.
func TestEditSavedDuringUpdateIsKept(t *testing.T) {
	for name, before := range map[string]string{"REGENERATED": gen1, "CONFLICT": edit} {
		for _, how := range []string{"in place", "by rename"} {
			dir := t.TempDir()
			x := filepath.Join(dir, "codegen.cpp")
			mustWrite(t, x, before)
			mustWrite(t, x+".original", gen1)
			const saved = "saved at the last moment\n"
			res, err := UpdateWorkCopy(CopyUpdate{
				ScriptDir: dir, Function: "k", Target: "sm_80", Newest: gen2,
				beforeExchange: func() {
					if how == "in place" {
						mustWrite(t, x, saved)
						return
					}
					mustWrite(t, x+"~", saved)
					if err := os.Rename(x+"~", x); err != nil {
						t.Error(err)
					}
				},
			})
			if err != nil || string(res.State) != name || len(res.Backups) == 0 {
				t.Fatalf("%s %s: %+v %v", name, how, res, err)
			}
			if got := mustRead(t, res.Backups[len(res.Backups)-1]); got != saved {
				t.Errorf("%s %s: backup holds %q", name, how, got)
			}
			if mustRead(t, x) != gen2 {
				t.Errorf("%s %s: X is %q", name, how, mustRead(t, x))
			}
		}
	}
}

// Many runs at the same moment: one initialises, every file is one run's whole output, the edit made
// before survives, and nothing is left behind.
func TestWorkingCopyUnderConcurrency(t *testing.T) {
	dir := t.TempDir()
	x := filepath.Join(dir, "codegen.cpp")
	output := func(i int) string { return strings.Repeat(fmt.Sprintf("output of run %d\n", i), 500) }
	known := map[string]bool{}
	for i := range 16 {
		known[output(i)] = true
	}
	mustWrite(t, x, edit)
	mustWrite(t, x+".original", gen1)
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Add(1)
	go func() { // readers never see a part
		defer reader.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, s := range []string{"", ".original", ".latest"} {
				data, err := os.ReadFile(x + s)
				if err == nil && !known[string(data)] && string(data) != edit && string(data) != gen1 {
					t.Errorf("codegen.cpp%s is in part: %d bytes", s, len(data))
					return
				}
			}
		}
	}()
	var wg sync.WaitGroup
	var mu sync.Mutex
	states := map[CopyState]int{}
	for i := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			res, err := UpdateWorkCopy(CopyUpdate{ScriptDir: dir, Function: "k", Target: "sm_80", Newest: output(i)})
			if err != nil {
				t.Error(err)
				return
			}
			if res.Code != output(i) {
				t.Errorf("run %d compiles another's code", i)
			}
			mu.Lock()
			states[res.State]++
			mu.Unlock()
		}()
	}
	wg.Wait()
	close(stop)
	reader.Wait()
	if states[CopyConflict] != 1 || states[CopyRegenerated] != 15 {
		t.Errorf("states %v", states)
	}
	if mustRead(t, x) != mustRead(t, x+".original") || mustRead(t, x) != mustRead(t, x+".latest") {
		t.Error("the three files are of different runs")
	}
	if mustRead(t, x+".bak") != edit {
		t.Error("the edit is lost")
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 6 { // the three, two backups, .run_records
		t.Errorf("%v", entries)
	}
}

func TestWorkingCopyWriteFailureIsReported(t *testing.T) {
	for _, suffix := range []string{"", ".original", ".latest"} {
		dir := t.TempDir()
		x := filepath.Join(dir, "codegen.cpp")
		mustWrite(t, x, edit)
		mustWrite(t, x+".original", gen1)
		withDisk(brittleDisk{osDisk, func(op, p string) bool {
			return op == "write" && strings.HasPrefix(filepath.Base(p), ".codegen.cpp"+suffix+".") && strings.HasSuffix(p, "tmp") &&
				strings.Count(filepath.Base(p), ".") == 4+strings.Count(suffix, ".")
		}}, func() {
			if res, err := UpdateWorkCopy(CopyUpdate{ScriptDir: dir, Function: "k", Target: "sm_80", Newest: gen2}); err == nil {
				t.Errorf("%q: no error, %+v", suffix, res)
			}
		})
		// The edit is in place or in the backup.
		if mustRead(t, x) != edit && get(t, x+".bak") != edit {
			t.Errorf("%q: the edit is lost", suffix)
		}
		res, err := UpdateWorkCopy(CopyUpdate{ScriptDir: dir, Function: "k", Target: "sm_80", Newest: gen2})
		if err != nil || res.Code != gen2 || mustRead(t, x) != gen2 {
			t.Errorf("%q: the next run: %+v %v", suffix, res, err)
		}
	}
}

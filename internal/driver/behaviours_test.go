package driver

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
)

// TestBehavioursAreShown: every test and script that docs/behaviours.md names is
// there.
func TestBehavioursAreShown(t *testing.T) {
	root, err := corpus.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "behaviours.md"))
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	decl := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, pattern := range []string{"cmd/*/*_test.go", "internal/*/*_test.go", "internal/*/*/*_test.go"} {
		files, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, f := range files {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range decl.FindAllSubmatch(src, -1) {
				declared[string(m[1])] = true
			}
		}
	}
	names := regexp.MustCompile("`((?:Test|Fuzz)\\w+|\\w+\\.txtar)`").FindAllStringSubmatch(string(page), -1)
	if len(names) < 100 {
		t.Errorf("only %d names found", len(names))
	}
	for _, m := range names {
		name := m[1]
		if strings.HasSuffix(name, ".txtar") {
			if _, err := os.Stat(filepath.Join(root, "cmd", "lowertrace", "testdata", "script", name)); err != nil {
				t.Error(err)
			}
		} else if !declared[name] {
			t.Errorf("no test %s", name)
		}
	}
}

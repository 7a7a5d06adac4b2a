package trace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeClock advances by a fixed step at each reading.
func fakeClock(step time.Duration) func() time.Time {
	t := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	return func() time.Time {
		t = t.Add(step)
		return t
	}
}

// seeded is a source of run ids that counts up from seed.
func seeded(seed byte) *bytes.Reader {
	var b []byte
	for i := range 64 {
		b = append(b, 0, 0, seed, byte(i))
	}
	return bytes.NewReader(b)
}

func testConfig(t *testing.T, dir string) Config {
	t.Helper()
	return Config{
		Manifest: Manifest{
			Tool: "lowertrace", ToolVersion: "test", Command: []string{"lowertrace", "run", "k.tir"},
			InputName: "k.tir", InputHash: "00ff", Source: "def k():\n    pass\n", Function: "k",
			Target: "sm_80", Pipeline: "cuda", InvocationID: "inv-1",
			PassConfig: []Option{{"tl.disable", "true"}}, Host: "linux/amd64",
		},
		TraceDir: dir, Stem: "k", InputKey: "k.tir",
		Clock: fakeClock(time.Millisecond), PID: 4242, Rand: seeded(1),
		Warn: func(s string) { t.Errorf("unexpected warning: %s", s) },
	}
}

// module is a text of n lines in which line changed reads differently for each version.
func module(n, changed, version int) string {
	var b strings.Builder
	for i := range n {
		if i == changed {
			fmt.Fprintf(&b, "    v%d[%d] = A[%d] * %d\n", i, i, i, version)
		} else {
			fmt.Fprintf(&b, "    v%d[%d] = A[%d]\n", i, i, i)
		}
	}
	return b.String()
}

func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.Walk(dir, func(p string, st os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		if !st.IsDir() {
			out = append(out, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func mustWrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

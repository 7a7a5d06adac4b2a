package main

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lowertrace/internal/corpus"
)

var update = flag.Bool("update", false, "rewrite expected outputs in the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"lowertrace": main,
	})
}

// TestScripts runs every script below testdata/script. The first line of each
// says what it shows.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"TL_LOWER_TRACE", "TL_LOWER_TRACE_DIR", "NO_COLOR", "CLICOLOR_FORCE", "LOWERTRACE_MODE"} {
				e.Setenv(name, "")
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"corpus": unpackCorpus},
	})
}

// unpackCorpus is the command corpus PATH DIR: it copies a file or folder of
// the packed reference corpus.
func unpackCorpus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: corpus PATH DIR")
	}
	to := ts.MkAbs(args[1])
	if b, err := corpus.ReadFile(args[0]); err == nil {
		ts.Check(os.WriteFile(to, b, 0o666))
		return
	}
	part, err := fs.Sub(corpus.FS(), args[0])
	ts.Check(err)
	ts.Check(os.CopyFS(to, part))
}

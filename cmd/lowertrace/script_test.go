package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lowertrace/internal/driver"
)

var update = flag.Bool("update", false, "rewrite expected outputs in the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"lowertrace": func() { os.Exit(run(context.Background(), os.Args[1:], driver.OSDeps())) },
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
	})
}

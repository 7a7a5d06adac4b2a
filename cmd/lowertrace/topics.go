package main

import "github.com/spf13/cobra"

// helpTopics are pages of `lowertrace help TOPIC`.
func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "environment", Short: "Environment variables", Long: `LOWERTRACE_MODE, TL_LOWER_TRACE
    off (0, false, no), html (1, on, true, yes), terminal or both. Letter case
    and surrounding space do not matter; empty is unset.
LOWERTRACE_TRACE_DIR, TL_LOWER_TRACE_DIR
    Base directory of run directories; default ./tmp/lower_trace_dir.
LOWERTRACE_TARGET, LOWERTRACE_ARCH, LOWERTRACE_PIPELINE,
LOWERTRACE_CODEGEN_OUTPUT, LOWERTRACE_CONTEXT, LOWERTRACE_HOST,
LOWERTRACE_VERIFY_EACH, LOWERTRACE_COLOR
    As the flags of those names.
LOWERTRACE_NVRTC, LOWERTRACE_LIBCUDA
    Where the compiler and the CUDA driver are: a library, or for NVRTC the
    folder of a toolkit or wheel. docs/gpu.md says where else they are looked for.
NO_COLOR, CLICOLOR_FORCE, TERM=dumb
    Respected unless --color or LOWERTRACE_COLOR says always or never.
PAGER, LESS
    What show and diff go through on a terminal: less with FRX unless set; cat
    for none.

A flag beats the environment, which beats lowertrace.yaml in the working
directory. Of two variables for one setting the first named above wins.
"lowertrace config show" prints each setting and where it comes from.`},
		{Use: "exit-codes", Short: "What the exit codes mean", Long: `0    done
1    the work itself failed or differs: a failed pass, a trace or an output that
     could not be written, a difference found by diff, a wrong answer found by
     check or exec
2    bad usage or bad input: nothing was run
130  interrupted`},
		{Use: "run-directory", Short: "What a run leaves behind", Long: `<trace-dir>/<script>/
    report.html                 the latest run's report
    codegen.cpp                 working copy of the generated code: edit it
    codegen.cpp.original        what it was generated as; .latest: newest output
    .run_records/run_<time>_<pid>_<id>/
        journal.ndjson          appended record by record while running
        trace.json              all records, written at the end
        timing.json             all that depends on the clock
        <phase>/NN_Name_before.tir, NN_Name_after.tir
        codegen/NN_codegen_before.tir, NN_codegen_after.cpp

docs/run-directory.md describes the formats.`},
	}
}

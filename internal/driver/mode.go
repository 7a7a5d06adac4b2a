package driver

import (
	"fmt"
	"strings"
)

// Mode is what a run shows and leaves.
type Mode uint8

// The modes. Off lowers without a trace and prints the CUDA; Terminal shows
// diffs; HTML writes a report; Both does both.
const (
	ModeOff Mode = iota
	ModeTerminal
	ModeHTML
	ModeBoth
)

var modeNames = [...]string{"off", "terminal", "html", "both"}

func (m Mode) String() string { return modeNames[m] }

// ModeNames are the modes' names.
func ModeNames() []string { return modeNames[:] }

// ParseMode reads a mode, in the words TL_LOWER_TRACE takes. Letter case and
// surrounding space do not matter.
func ParseMode(s string) (Mode, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "0", "off", "false", "no":
		return ModeOff, nil
	case "1", "on", "true", "yes", "html":
		return ModeHTML, nil
	case "terminal":
		return ModeTerminal, nil
	case "both":
		return ModeBoth, nil
	}
	return ModeOff, fmt.Errorf("unknown mode %q: expected off (0, false, no), terminal, html (1, on, true, yes) or both", s)
}

// DefaultTraceDir is where run directories go.
const DefaultTraceDir = "./tmp/lower_trace_dir"

// DefaultPipeline is the pipeline that runs unless another is named.
const DefaultPipeline = "cuda"

package trace

import (
	"time"
)

// Status says how a record ended.
type Status string

const (
	// Completed is a pass that ran to its end, whether it changed anything or not.
	Completed Status = "completed"
	// Failed is a pass that returned an error. It has a BeforeText and an ErrorMsg, and no AfterText.
	Failed Status = "failed"
	// Skipped is a pass the user named and that did not run; ErrorMsg holds the reason.
	Skipped Status = "skipped"
	// Codegen is the code generator's own record: IR before, generated source after.
	Codegen Status = "codegen"
)

// Phases that no pipeline names.
const (
	// PhaseUnscoped groups passes that ran outside any pipeline.
	PhaseUnscoped = "unscoped"
	// PhaseCodegen groups the code generator's record and the passes it ran.
	PhaseCodegen = "codegen"
)

// NoParent is the ParentIndex of a record that no other pass ran.
const NoParent = -1

// Remark is one thing a pass said about its work, with the place in the input it concerns.
type Remark struct {
	Text string `json:"text"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // 1-based; 0 means no place
	Col  int    `json:"col,omitempty"`  // 1-based, in bytes; 0 means no column
}

// LowerRecord is what one pass did to the module. Records are values: the recorder does not change
// one after handing it to an observer, and readers may share its slices but not write to them.
type LowerRecord struct {
	Phase string `json:"phase"` // the pipeline's group: pipeline_cuda, codegen, unscoped, a phase function's name
	Stage string `json:"stage,omitempty"`
	Name  string `json:"name"`
	Doc   string `json:"doc,omitempty"` // what the pass is for, in one line
	Index int    `json:"index"`         // unique in a run and strictly increasing in the order passes began

	BeforeText string `json:"-"`
	AfterText  string `json:"-"`
	Changed    bool   `json:"changed"` // the texts differ
	AddLines   int    `json:"add_lines"`
	DelLines   int    `json:"del_lines"`

	Status   Status `json:"status"`
	ErrorMsg string `json:"error_msg,omitempty"` // of a failed record; of a skipped one, the reason

	Depth       int `json:"depth"`        // 0 for a pass that no other pass ran
	ParentIndex int `json:"parent_index"` // index of the enclosing record, or NoParent

	// Duration is the inclusive wall time, children included; SelfDuration leaves them out. Only
	// depth-0 durations may be added up to a total.
	Duration     time.Duration `json:"-"`
	SelfDuration time.Duration `json:"-"`

	Remarks []Remark `json:"remarks,omitempty"`

	// Origins give, for each line of the text, the 1-based line of the input file it came from, or 0
	// where that is unknown. Nil, or shorter than the text, means unknown throughout the rest.
	BeforeOrigins []int32 `json:"-"`
	AfterOrigins  []int32 `json:"-"`

	// HasBefore and HasAfter tell an empty text from one that was not recorded (the after text of a
	// failed pass, both texts of a skipped one, a snapshot lost from a damaged run).
	HasBefore bool `json:"-"`
	HasAfter  bool `json:"-"`
}

// RunState says how far a run got.
type RunState string

const (
	// StateRunning is a run whose process is at work, or was killed: the journal has no end.
	StateRunning RunState = "running"
	// StateComplete is a run that reached its end without a failed pass.
	StateComplete RunState = "complete"
	// StateFailed is a run that a pass or the code generator ended with an error.
	StateFailed RunState = "failed"
	// StateInterrupted is a run that a signal ended.
	StateInterrupted RunState = "interrupted"
)

// SchemaVersion is the version of trace.json, timing.json and journal.ndjson that this package
// writes. A reader accepts this version and lower ones.
const SchemaVersion = 1

// Option is one setting that influenced the run, as the user would write it.
type Option struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// GeneratedFile names a file the run left outside its run directory.
type GeneratedFile struct {
	Kind string `json:"kind"` // "codegen", "launch", "report", …
	Path string `json:"path"` // relative to the script directory where it lies inside it
}

// Manifest is all that a run knows about itself apart from its records. Nothing in it depends on
// the clock or the process except ID and InvocationID, which are kept out of trace.json.
type Manifest struct {
	Schema      int    `json:"schema_version"`
	Tool        string `json:"tool"`         // "lowertrace"
	ToolVersion string `json:"tool_version"` // as `lowertrace version` prints it

	ID           string   `json:"-"` // the run directory's name; empty for a foreign trace without one
	InvocationID string   `json:"-"` // shared by the runs of one command
	State        RunState `json:"state"`
	Error        string   `json:"error,omitempty"` // what ended a failed run, when no record says it

	Command []string `json:"command"` // argv as typed
	Script  string   `json:"script"`  // the script directory's name

	InputName string `json:"input_name"` // as the user named it; "stdin" for standard input
	InputHash string `json:"input_hash"` // sha256 of the input's bytes, in hex; with Imports, of theirs as well
	Source    string `json:"-"`          // the input's text
	Function  string `json:"function"`   // the kernel
	// Imports are the other files that the input was made from, in the order they were read.
	Imports []ImportedFile `json:"imports,omitempty"`

	Target     string   `json:"target"` // what is lowered for: sm_80, …
	Arch       string   `json:"arch"`   // what is compiled for; empty where nothing is compiled
	Pipeline   string   `json:"pipeline"`
	PassConfig []Option `json:"pass_config,omitempty"` // sorted by name
	Options    []Option `json:"options,omitempty"`     // --set and the flags that matter, in the order given

	Host   string `json:"host,omitempty"`   // operating system and architecture
	Device string `json:"device,omitempty"` // the GPU's name, where one was used

	Generated []GeneratedFile `json:"generated,omitempty"`

	// Foreign names the tracer that left this run when it was not ours: "tilelang" or "reference".
	Foreign string `json:"foreign,omitempty"`
}

// ImportedFile is a file that the input imports.
type ImportedFile struct {
	Name string `json:"name"` // as messages name it
	Hash string `json:"hash"` // sha256 of its bytes, in hex
	Text string `json:"text"`
}

// Run is one recorded lowering.
type Run struct {
	Manifest
	Started time.Time // when the run began; zero where unknown
	Records []LowerRecord
	// Unfinished are the passes that had begun and not ended where a killed or running process's
	// journal stops, outermost first. They have a BeforeText and no AfterText, and no status.
	Unfinished []LowerRecord
	Dir        string // the directory it was read from or is written to; empty for none
	// Notes are what a reader has to say about damage it worked around: a cut-off journal line, a
	// missing snapshot. One sentence each.
	Notes []string
}

// Record returns the record with that index, or nil.
func (r *Run) Record(index int) *LowerRecord {
	for i := range r.Records {
		if r.Records[i].Index == index {
			return &r.Records[i]
		}
	}
	return nil
}

// Failed returns the first failed record, or nil.
func (r *Run) Failed() *LowerRecord {
	for i := range r.Records {
		if r.Records[i].Status == Failed {
			return &r.Records[i]
		}
	}
	return nil
}

// Occurrence counts, for the record at position i of recs, the depth-0 records of the same name and
// phase up to and including it: the k of NAME#k, from 1. A nested record has occurrence 0.
func Occurrence(recs []LowerRecord, i int) int {
	if recs[i].Depth != 0 {
		return 0
	}
	k := 0
	for j := 0; j <= i; j++ {
		if recs[j].Depth == 0 && recs[j].Name == recs[i].Name && recs[j].Phase == recs[i].Phase {
			k++
		}
	}
	return k
}

// ChangedCount counts the records whose texts differ.
func (r *Run) ChangedCount() int {
	n := 0
	for i := range r.Records {
		if r.Records[i].Changed {
			n++
		}
	}
	return n
}

// TotalDuration is the wall time of all recorded work, each moment counted once: the inclusive time
// of the outermost records. Passes that ran inside code generation stand beside the code
// generator's record, not below it, so that record counts with its self time.
func TotalDuration(recs []LowerRecord) time.Duration {
	var sum time.Duration
	for i := range recs {
		switch {
		case recs[i].Depth != 0:
		case recs[i].Status == Codegen:
			sum += recs[i].SelfDuration
		default:
			sum += recs[i].Duration
		}
	}
	return sum
}

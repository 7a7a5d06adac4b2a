package driver

import "strings"

// SourceOptions say how a kernel's file is read.
type SourceOptions struct {
	Func string   // the kernel, of a file with several; "": the only one
	Set  []string // NAME=VALUE: arguments, constants, symbolic sizes, scalars
	arch string   // what the source is told of the GPU; "": DefaultTarget
}

// RunOptions are what `run` was asked for.
type RunOptions struct {
	SourceOptions
	Files          []string // none: the embedded kernel; "-": standard input
	Mode           Mode
	Target         string // "": the one bound in the text, else DefaultTarget
	TargetFromFlag bool
	Arch           string
	// From is the run whose recorded IR is lowered instead of a file, from
	// StartAt on.
	From             string
	Pipeline         string
	PipelineFromFlag bool
	PassConfig       []string // KEY=VALUE
	TraceDir         string
	CodegenOutput    string // "": beside the runs; a path; or "none"
	Context          int
	Host             bool
	VerifyEach       bool
	StartAt          string
	StopAfter        string
	Skip, Only       []string
	JSON             bool
	Stats            bool // compile, and tell what each kernel uses
}

// source says how the kernel's file is read for the first of the targets.
func (o RunOptions) source() SourceOptions {
	so := o.SourceOptions
	so.arch, _, _ = strings.Cut(o.Target, ",")
	return so
}

// file is the file of a command that takes one; "" is the embedded kernel.
func (o RunOptions) file() string {
	if len(o.Files) == 0 {
		return ""
	}
	return o.Files[0]
}

// DiffOptions are what `diff` was asked for.
type DiffOptions struct {
	Runs          []string // two, or none for the last two
	TraceDir      string
	Context       int
	Host          bool
	All, Stat     bool
	Pass          string
	NameOnly      bool
	WordDiff      bool
	IgnoreSpace   bool
	IgnoreRenames bool
	JSON          bool
	HTML          string // file for a side-by-side report
	Resources     bool   // compile both sides' code and compare what it uses
	PTX           bool   // with Resources: compare the PTX too
	NVRTC         string // library or folder; "": look in the usual places
}

// PassesOptions are what `passes` was asked for.
type PassesOptions struct {
	Pipeline string
	Name     string
	JSON     bool
	Options  bool
}

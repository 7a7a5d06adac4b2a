package trace

import (
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// Foreign traces.
const (
	// ForeignTileLang is a run directory of TileLang's own tracer: <phase>/NN_Name_before.tir and
	// _after.tir, no manifest; what the file names do not say is read from report.html where it is.
	ForeignTileLang = "tilelang"
	// ForeignReference is a directory of one lowering: passes.tsv, nested.tsv, input.tir, NN_Name.tir
	// for each pass that changed the text, codegen_input.tir and kernel.cu.
	ForeignReference = "reference"
)

// maxForeignFiles bounds the files looked at in one foreign run.
const maxForeignFiles = 200_000

// snapshotName is NN_Name_before.tir and its kin.
var snapshotName = regexp.MustCompile(`^(\d{1,9})_(.+)(_before|_after)\.(tir|cpp|cu|txt)$`)

// parseSnapshotName takes a snapshot's file name apart: number, pass, "_before" or "_after".
func parseSnapshotName(base string) (index int, name, side string, ok bool) {
	m := snapshotName.FindStringSubmatch(base)
	if m == nil {
		return 0, "", "", false
	}
	index, err := strconv.Atoi(m[1])
	return index, m[2], m[3], err == nil
}

func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// textCache reads files and shares equal texts.
type textCache struct {
	seen map[string]string
	size int64
}

func (c *textCache) read(path string) (string, error) {
	data, err := readFileLimit(path, maxTraceBytes)
	if err != nil {
		return "", err
	}
	if s, ok := c.seen[string(data)]; ok {
		return s, nil
	}
	if c.size += int64(len(data)); c.size > maxTextBytes {
		return "", errTooLarge
	}
	s := string(data)
	if c.seen == nil {
		c.seen = map[string]string{}
	}
	c.seen[s] = s
	return s, nil
}

// isTileLangRun says whether a directory without our files holds snapshots in phase directories.
func isTileLangRun(dir string) bool {
	m, _ := filepath.Glob(filepath.Join(globEscape(dir), "*", "*_before.tir"))
	for _, p := range m {
		if _, _, _, ok := parseSnapshotName(filepath.Base(p)); ok {
			return true
		}
	}
	return false
}

// readTileLang reads a run directory of TileLang's tracer.
func readTileLang(dir string, stat DiffStat) (*Run, error) {
	phases, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	byIndex := map[int]*LowerRecord{}
	var cache textCache
	files := 0
	for _, ph := range phases {
		if !ph.IsDir() {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(dir, ph.Name()))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			index, name, side, ok := parseSnapshotName(e.Name())
			if !ok {
				continue
			}
			if files++; files > maxForeignFiles {
				return nil, errTooLarge
			}
			text, err := cache.read(filepath.Join(dir, ph.Name(), e.Name()))
			if err != nil {
				return nil, err
			}
			rec := byIndex[index]
			if rec == nil {
				rec = &LowerRecord{Phase: ph.Name(), Name: name, Index: index, ParentIndex: NoParent}
				byIndex[index] = rec
			}
			if side == "_before" {
				rec.BeforeText, rec.HasBefore = text, true
			} else {
				rec.AfterText, rec.HasAfter = text, true
				if !strings.HasSuffix(e.Name(), ".tir") {
					rec.Status = Codegen
				}
			}
		}
	}
	if len(byIndex) == 0 {
		return nil, fmt.Errorf("%s holds no passes", dir)
	}
	run := &Run{Dir: dir}
	run.Foreign = ForeignTileLang
	run.ID = idOfDir(dir)
	run.State = StateComplete
	if abs, err := filepath.Abs(dir); err == nil && filepath.Base(filepath.Dir(abs)) == recordsDir {
		run.Script = filepath.Base(filepath.Dir(filepath.Dir(abs)))
	}
	links := readTileLangReport(filepath.Join(dir, reportFile), run)
	for index, rec := range byIndex {
		if l, ok := links[index]; ok {
			if l.name != "" {
				rec.Name = l.name
			}
			rec.Depth, rec.ParentIndex, rec.ErrorMsg = l.depth, l.parent, l.errorMsg
			if l.status == "failed" {
				rec.Status = Failed
			}
		}
		// The tracer leaves an empty after file where a pass failed or was cut off.
		if rec.Status != Failed && (!rec.HasAfter || rec.AfterText == "" && rec.BeforeText != "") {
			rec.Status = Failed
		}
		switch rec.Status {
		case Failed:
			rec.AfterText, rec.HasAfter = "", false
			if rec.ErrorMsg == "" {
				rec.ErrorMsg = "the trace holds no IR after this pass"
			}
			run.State = StateFailed
		case "":
			rec.Status = Completed
		}
		run.Records = append(run.Records, *rec)
	}
	sortRecords(run.Records)
	fillDiffs(run, stat)
	guessManifest(run)
	return run, nil
}

// tileLangLink is one entry of a TileLang report's pass list.
type tileLangLink struct {
	name     string
	status   string
	depth    int
	parent   int
	errorMsg string
}

var (
	reportLink  = regexp.MustCompile(`<a class="pass-link"([^>]*)>(.*?)</a>`)
	reportAttr  = regexp.MustCompile(`data-([a-z-]+)="([^"]*)"`)
	reportLabel = regexp.MustCompile(`<span class="pass-label">([^<]*)</span>`)
	reportError = regexp.MustCompile(`id="(sec-[^"]*)"[^>]*>(?:<div class="pass-header">.*?</div>)?<div class="error-box"><div class="error-label">[^<]*</div>([^<]*)`)
	htmlTags    = regexp.MustCompile(`<[^>]*>`)
)

// readTileLangReport finds nesting, failures and full names by record number. A report that is
// missing or of another make gives nothing.
func readTileLangReport(path string, run *Run) map[int]tileLangLink {
	data, err := readFileLimit(path, maxTraceBytes)
	if err != nil {
		run.Notes = append(run.Notes, "no report.html beside the passes: nesting and error messages are unknown")
		return nil
	}
	text := string(data)
	errorsAt := map[string]string{}
	for _, m := range reportError.FindAllStringSubmatch(text, -1) {
		errorsAt[m[1]] = strings.TrimSpace(html.UnescapeString(htmlTags.ReplaceAllString(m[2], "")))
	}
	links := map[int]tileLangLink{}
	for _, m := range reportLink.FindAllStringSubmatch(text, maxForeignFiles) {
		attr := map[string]string{}
		for _, a := range reportAttr.FindAllStringSubmatch(m[1], -1) {
			attr[a[1]] = html.UnescapeString(a[2])
		}
		target := attr["target"]
		index, err := strconv.Atoi(target[strings.LastIndexByte(target, '-')+1:])
		if err != nil {
			continue
		}
		l := tileLangLink{status: attr["status"], parent: NoParent, errorMsg: errorsAt[target]}
		l.depth, _ = strconv.Atoi(attr["depth"])
		if p, err := strconv.Atoi(attr["parent-index"]); err == nil {
			l.parent = p
		}
		if l.depth < 0 || l.depth > 0 && l.parent == NoParent {
			l.depth = 0
		}
		if lab := reportLabel.FindStringSubmatch(m[2]); lab != nil {
			l.name = html.UnescapeString(lab[1])
		}
		links[index] = l
	}
	return links
}

// fillDiffs sets changed and the line counts from the texts.
func fillDiffs(run *Run, stat DiffStat) {
	if stat == nil {
		stat = blockStat
	}
	for i := range run.Records {
		r := &run.Records[i]
		if r.HasBefore && r.HasAfter && r.BeforeText != r.AfterText {
			r.Changed = true
			r.AddLines, r.DelLines = stat(r.BeforeText, r.AfterText)
		}
	}
}

var (
	funcDef    = regexp.MustCompile(`(?m)^[ \t]*def[ \t]+(\w+)[ \t]*\(`)
	targetArch = regexp.MustCompile(`"arch":\s*"(sm_\w+)"`)
)

// guessManifest takes what a foreign trace does not state from its texts: the first function's name
// and the target bound to it.
func guessManifest(run *Run) {
	run.Tool = run.Foreign
	for i := range run.Records {
		r := &run.Records[i]
		if run.Function == "" {
			if m := funcDef.FindStringSubmatch(r.BeforeText); m != nil {
				run.Function = m[1]
			}
		}
		if run.Target == "" {
			if m := targetArch.FindStringSubmatch(r.AfterText); m != nil {
				run.Target = m[1]
			}
		}
		if run.Pipeline == "" && strings.HasPrefix(r.Phase, "pipeline_") {
			run.Pipeline = strings.TrimPrefix(r.Phase, "pipeline_")
		}
	}
	if run.InputName == "" {
		run.InputName = run.Script
	}
}

// isReference says whether dir is a directory of one reference lowering.
func isReference(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "passes.tsv"))
	return err == nil
}

// readTSV reads lines of tab-separated fields; each must have at least n.
func readTSV(path string, n int) ([][]string, error) {
	data, err := readFileLimit(path, 64<<20)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) < n {
			return nil, fmt.Errorf("%s:%d: %d fields, want %d", path, i+1, len(f), n)
		}
		rows = append(rows, f)
	}
	return rows, nil
}

// readReference reads a directory KERNEL/ARCH of the reference layout. Texts that did not change are
// not there, so each pass's text before is the latest one of its level: the module for the outermost
// passes, a sequence of its own inside each nested group, whose first text is not always known. Two Filters in a row start from the same
// module, for they take its host and its device functions.
func readReference(dir string, stat DiffStat) (*Run, error) {
	rows, err := readTSV(filepath.Join(dir, "passes.tsv"), 5)
	if err != nil {
		return nil, err
	}
	if len(rows) > maxForeignFiles {
		return nil, errTooLarge
	}
	depth, parent := map[int]int{}, map[int]int{}
	if nested, err := readTSV(filepath.Join(dir, "nested.tsv"), 3); err == nil {
		for _, f := range nested {
			i, e1 := strconv.Atoi(f[0])
			d, e2 := strconv.Atoi(f[1])
			p, e3 := strconv.Atoi(f[2])
			if err := errors.Join(e1, e2, e3); err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "nested.tsv"), err)
			}
			if d > 0 && p >= 0 && p < i {
				depth[i], parent[i] = d, p
			}
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	run := &Run{Dir: dir}
	run.Foreign = ForeignReference
	run.State = StateComplete
	run.Script = filepath.Base(filepath.Dir(abs))
	run.Target = filepath.Base(abs)
	run.InputName = run.Script

	var cache textCache
	module, err := cache.read(filepath.Join(dir, "input.tir"))
	if err != nil {
		return nil, err
	}
	run.Source = module
	module = asModule(module)
	type group struct { // passes inside one other pass
		text   string
		known  bool
		inside map[string]bool // names since the sequence began
	}
	groups := map[int]*group{}
	outerBefore, outerChanged := map[int]string{}, map[int]bool{}
	for _, f := range rows {
		index, err := strconv.Atoi(f[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "passes.tsv"), err)
		}
		rec := LowerRecord{
			Phase: f[1], Name: f[2], Index: index, Status: Status(f[4]), Depth: depth[index],
			ParentIndex: NoParent, HasBefore: true, HasAfter: true,
		}
		if rec.Depth > 0 {
			rec.ParentIndex = parent[index]
		}
		changed := f[3] == "1"
		outerChanged[index] = changed
		file := filepath.Join(dir, fmt.Sprintf("%02d_%s.tir", index, f[2]))
		if rec.Status == Codegen {
			rec.BeforeText = module
			if t, err := cache.read(filepath.Join(dir, "codegen_input.tir")); err == nil {
				rec.BeforeText = t
			}
			file = filepath.Join(dir, "kernel.cu")
		} else if rec.Depth == 0 {
			rec.BeforeText = module
			if last := len(run.Records) - 1; last >= 0 && rec.Name == "Filter" &&
				run.Records[last].Name == "Filter" && run.Records[last].Depth == 0 {
				rec.BeforeText = run.Records[last].BeforeText
			}
			outerBefore[index] = rec.BeforeText
		} else {
			g := groups[rec.ParentIndex]
			if g == nil {
				// Inside a pass that changed nothing the text is that pass's own. Inside one that did,
				// inner passes see a text on the way, or another function's: nobody kept it.
				g = &group{text: outerBefore[rec.ParentIndex], known: !outerChanged[rec.ParentIndex] && !changed,
					inside: map[string]bool{}}
				groups[rec.ParentIndex] = g
			}
			if changed && g.inside[rec.Name] { // the sequence begins anew, on a text not kept
				g.known = false
				clear(g.inside)
			}
			g.inside[rec.Name] = true
			rec.BeforeText, rec.HasBefore = g.text, g.known
			if !g.known {
				rec.BeforeText = ""
			}
			outerBefore[index] = g.text
		}
		switch {
		case rec.Status == Failed:
			rec.HasAfter = false
			run.State = StateFailed
		case changed:
			if rec.AfterText, err = cache.read(file); err != nil {
				return nil, err
			}
		default:
			rec.AfterText, rec.HasAfter = rec.BeforeText, rec.HasBefore
		}
		rec.Changed = changed // where the text before is unknown, the table says so
		if rec.HasAfter && rec.Status != Codegen {
			if rec.Depth == 0 {
				module = rec.AfterText
			} else if g := groups[rec.ParentIndex]; g != nil {
				g.text, g.known = rec.AfterText, true
			}
		}
		run.Records = append(run.Records, rec)
	}
	if len(run.Records) == 0 {
		return nil, fmt.Errorf("%s holds no passes", filepath.Join(dir, "passes.tsv"))
	}
	sort.SliceStable(run.Records, func(i, j int) bool { return run.Records[i].Index < run.Records[j].Index })
	target := run.Target
	fillDiffs(run, stat)
	guessManifest(run)
	run.Target = target
	if run.Function == "" {
		run.Function = run.Script
	}
	return run, nil
}

// asModule wraps a lone function as the module that passes see: the reference's input.tir holds the
// function alone, printed before it was put into one.
func asModule(text string) string {
	const header = "# from tvm.script import tirx as T\n\n"
	body, ok := strings.CutPrefix(text, header)
	if !ok || !strings.HasPrefix(body, "@T.prim_func") {
		return text
	}
	lines := strings.Split(body, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "    " + l
		}
	}
	return "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n" +
		strings.Join(lines, "\n")
}

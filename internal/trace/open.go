package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// OpenOptions are what Open needs beside the argument.
type OpenOptions struct {
	TraceDir string   // where a stem or an id is looked up; empty: only paths are accepted
	DiffStat DiffStat // for traces that state no line counts; nil: the lines between common head and tail
}

// ErrNoRun is wrapped by errors of Open and Find that say that nothing is there, as opposed to
// something that can't be read.
var ErrNoRun = errors.New("no such run")

// minIDPrefix is the shortest part of a run's id that names it.
const minIDPrefix = 3

// Open reads a run. The argument is one of
//
//   - a run directory, ours or TileLang's, or a KERNEL/ARCH directory of the reference layout
//   - trace.json or journal.ndjson, or report.html beside one of them (links are followed)
//   - a script directory: its newest run; with @N behind it the N-th newest, from 1
//   - a script's name below opt.TraceDir, with or without @N
//   - a unique prefix, three characters or longer, of a run's id there: of the whole name
//     run_20260102_…, of its stamp, or of the id at its end
//
// A trace cut off by a kill is read as far as it goes; Run.Notes say what is missing.
func Open(arg string, opt OpenOptions) (*Run, error) {
	path, err := Find(arg, opt.TraceDir)
	if err != nil {
		return nil, err
	}
	return openPath(path, opt.DiffStat)
}

// openPath reads the run that Find located.
func openPath(path string, stat DiffStat) (*Run, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case st.IsDir() && isOurRun(path):
		return readRunDir(path)
	case st.IsDir() && isReference(path):
		return readReference(path, stat)
	case st.IsDir():
		return readTileLang(path, stat)
	case filepath.Base(path) == journalFile:
		return readJournal(path)
	default:
		return readTrace(path)
	}
}

// Find returns the path of the run that an argument of Open names: a run directory, trace.json or
// journal.ndjson.
func Find(arg, traceDir string) (string, error) {
	if arg == "" {
		return "", fmt.Errorf("%w: empty name", ErrNoRun)
	}
	base, nth, hasNth := cutNth(arg)
	if st, err := os.Stat(arg); err == nil {
		if st.IsDir() {
			return findInDir(arg, 1)
		}
		return findFile(arg)
	}
	if hasNth {
		if st, err := os.Stat(base); err == nil && st.IsDir() {
			return findInDir(base, nth)
		}
	}
	if traceDir == "" {
		return "", fmt.Errorf("%w: %s", ErrNoRun, arg)
	}
	if !strings.ContainsAny(base, `/\`) {
		if st, err := os.Stat(filepath.Join(traceDir, base)); err == nil && st.IsDir() {
			return findInDir(filepath.Join(traceDir, base), nth)
		}
	}
	return findByID(arg, traceDir)
}

// cutNth splits NAME@N. Without a number N is 1.
func cutNth(arg string) (base string, n int, ok bool) {
	i := strings.LastIndexByte(arg, '@')
	if i <= 0 {
		return arg, 1, false
	}
	n, err := strconv.Atoi(arg[i+1:])
	if err != nil || n < 1 {
		return arg, 1, false
	}
	return arg[:i], n, true
}

// findFile finds the run that a file belongs to.
func findFile(path string) (string, error) {
	switch filepath.Base(path) {
	case traceFile, journalFile:
		return path, nil
	}
	if strings.HasSuffix(path, ".html") {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", err
		}
		if dir := filepath.Dir(real); isRun(dir) {
			return dir, nil
		}
		return "", fmt.Errorf("%w: no trace lies beside %s", ErrNoRun, path)
	}
	if strings.HasSuffix(path, ".ndjson") {
		return path, nil
	}
	if strings.HasSuffix(path, ".json") {
		return path, nil
	}
	return "", fmt.Errorf("%w: %s is not a trace", ErrNoRun, path)
}

// isOurRun says whether dir is a run directory that this package wrote.
func isOurRun(dir string) bool {
	for _, name := range []string{traceFile, journalFile} {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
			return true
		}
	}
	return false
}

func isRun(dir string) bool { return isOurRun(dir) || isReference(dir) || isTileLangRun(dir) }

// findInDir finds the nth newest run of a directory, which may be a run itself, a script directory,
// the .run_records in it, or a trace directory with a single script.
func findInDir(dir string, nth int) (string, error) {
	if nth == 1 && isRun(dir) {
		return dir, nil
	}
	records := filepath.Join(dir, recordsDir)
	if filepath.Base(dir) == recordsDir {
		records = dir
	}
	if _, err := os.Stat(records); err == nil {
		names, err := runNames(records)
		if err != nil {
			return "", err
		}
		if nth > len(names) {
			return "", fmt.Errorf("%w: %s has %s", ErrNoRun, dir, count(len(names), "run"))
		}
		return filepath.Join(records, names[len(names)-nth]), nil
	}
	scripts, err := scriptNames(dir)
	if err != nil {
		return "", err
	}
	switch len(scripts) {
	case 0:
		var inside []string
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() && isReference(filepath.Join(dir, e.Name())) {
				inside = append(inside, e.Name())
			}
		}
		if len(inside) == 1 && nth == 1 {
			return filepath.Join(dir, inside[0]), nil
		}
		if len(inside) > 1 {
			return "", fmt.Errorf("%w: %s holds several: name one of %s", ErrNoRun, dir, strings.Join(inside, ", "))
		}
		return "", fmt.Errorf("%w: %s holds no run", ErrNoRun, dir)
	case 1:
		return findInDir(filepath.Join(dir, scripts[0]), nth)
	}
	return "", fmt.Errorf("%w: %s holds the runs of several scripts: name one of %s", ErrNoRun, dir, someOf(scripts))
}

// maxNamed bounds the names an error lists.
const maxNamed = 8

func someOf(names []string) string {
	if len(names) > maxNamed {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// runNames lists the run directories in a .run_records directory, oldest first. The stamp in the
// name orders them; runs of one microsecond are ordered by name.
func runNames(records string) ([]string, error) {
	entries, err := os.ReadDir(records)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if _, ok := runStamp(e.Name()); ok && e.IsDir() {
			names = append(names, e.Name())
		}
	}
	sort.Slice(names, func(i, j int) bool {
		a, _ := runStamp(names[i])
		b, _ := runStamp(names[j])
		if a != b {
			return a < b
		}
		return names[i] < names[j]
	})
	return names, nil
}

// scriptNames lists the script directories in a trace directory, sorted.
func scriptNames(traceDir string) ([]string, error) {
	entries, err := os.ReadDir(traceDir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if st, err := os.Stat(filepath.Join(traceDir, e.Name(), recordsDir)); err == nil && st.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// findByID finds the one run below a trace directory whose id begins with arg.
func findByID(arg, traceDir string) (string, error) {
	if len(arg) < minIDPrefix {
		return "", fmt.Errorf("%w: %s", ErrNoRun, arg)
	}
	scripts, err := scriptNames(traceDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var found, ids []string
	for _, s := range scripts {
		records := filepath.Join(traceDir, s, recordsDir)
		names, err := runNames(records)
		if err != nil {
			return "", err
		}
		for _, n := range names {
			id := n[strings.LastIndexByte(n, '_')+1:]
			if strings.HasPrefix(n, arg) || strings.HasPrefix(n, "run_"+arg) || strings.HasPrefix(id, arg) {
				found = append(found, filepath.Join(records, n))
				ids = append(ids, s+" "+n)
			}
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: %s is no path, and neither a script nor a run in %s", ErrNoRun, arg, traceDir)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%w: %s is the beginning of several: %s", ErrNoRun, arg, someOf(ids))
}

// RunInfo is one run in a list.
type RunInfo struct {
	Script  string    `json:"script"`
	ID      string    `json:"id"`
	Dir     string    `json:"dir"`
	Started time.Time `json:"started,omitzero"` // by the run's own account, else by its name; local time in the latter case
	State   RunState  `json:"state"`
	Foreign string    `json:"foreign,omitempty"`

	Input    string `json:"input"`
	Function string `json:"function"`
	Target   string `json:"target"`
	Pipeline string `json:"pipeline"`
	Records  int    `json:"records"`
	Changed  int    `json:"changed"`
	Failed   string `json:"failed,omitempty"`  // the first failed pass
	Problem  string `json:"problem,omitempty"` // why the run can't be read; the counts are then unknown
}

// List returns the runs below a trace directory or of one script directory, by script, newest
// first. A run that can't be read is listed with its problem. Of directories in the reference layout
// it lists KERNEL/ARCH, the ARCH below a KERNEL, and the KERNELs below one more.
func List(dir string) ([]RunInfo, error) {
	scripts := []string{""}
	if st, err := os.Stat(filepath.Join(dir, recordsDir)); err != nil || !st.IsDir() {
		if scripts, err = scriptNames(dir); err != nil {
			return nil, err
		}
	}
	if len(scripts) == 0 {
		return listReference(dir, 2), nil
	}
	var infos []RunInfo
	for _, s := range scripts {
		records := filepath.Join(dir, s, recordsDir)
		names, err := runNames(records)
		if err != nil {
			return nil, err
		}
		script := s
		if script == "" {
			if abs, err := filepath.Abs(dir); err == nil {
				script = filepath.Base(abs)
			}
		}
		for i := len(names) - 1; i >= 0; i-- {
			info := runInfo(filepath.Join(records, names[i]))
			info.Script, info.ID = script, names[i]
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// listReference lists the lowerings of the reference layout in a directory and down to levels below.
func listReference(dir string, levels int) []RunInfo {
	if isReference(dir) {
		info := runInfo(dir)
		info.ID = filepath.Base(dir)
		if abs, err := filepath.Abs(dir); err == nil {
			info.ID, info.Script = filepath.Base(abs), filepath.Base(filepath.Dir(abs))
		}
		return []RunInfo{info}
	}
	if levels == 0 {
		return nil
	}
	var infos []RunInfo
	entries, _ := os.ReadDir(dir) // what can't be read holds no runs for us
	for _, e := range entries {
		if e.IsDir() {
			infos = append(infos, listReference(filepath.Join(dir, e.Name()), levels-1)...)
		}
	}
	return infos
}

// runInfo reads as little of a run as its entry in a list needs.
func runInfo(dir string) RunInfo {
	info := RunInfo{Dir: dir}
	if stamp, ok := runStamp(filepath.Base(dir)); ok {
		if t, err := time.ParseInLocation(stampLayout, stamp[:len(stampLayout)], time.Local); err == nil {
			micros, _ := strconv.Atoi(stamp[len(stampLayout)+1:])
			info.Started = t.Add(time.Duration(micros) * time.Microsecond)
		}
	}
	if m, sum, err := readTraceHead(filepath.Join(dir, traceFile)); err == nil {
		info.fill(m)
		info.Records, info.Changed, info.Failed = sum.Records, sum.Changed, sum.Failed
		var t timing
		if data, err := readFileLimit(filepath.Join(dir, timingFile), maxTraceBytes); err == nil && json.Unmarshal(data, &t) == nil {
			if at, err := time.Parse(time.RFC3339Nano, t.Started); err == nil {
				info.Started = at
			}
		}
		return info
	}
	run, err := openPath(dir, func(string, string) (int, int) { return 0, 0 })
	if err != nil {
		info.Problem = err.Error()
		return info
	}
	info.fill(&run.Manifest)
	if !run.Started.IsZero() {
		info.Started = run.Started
	}
	info.Records, info.Changed = len(run.Records), run.ChangedCount()
	if f := run.Failed(); f != nil {
		info.Failed = f.Name
	}
	return info
}

func (i *RunInfo) fill(m *Manifest) {
	i.State, i.Foreign, i.Input, i.Function = m.State, m.Foreign, m.InputName, m.Function
	i.Target, i.Pipeline = m.Target, m.Pipeline
}

// readTraceHead reads the members of trace.json that come before the records.
func readTraceHead(path string) (*Manifest, *traceSummary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, fmt.Errorf("%s is not a trace", path)
	}
	var (
		schema int
		m      Manifest
		sum    traceSummary
		seen   int
	)
	for seen < 3 && dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		var into any
		switch key {
		case "schema_version":
			into = &schema
		case "manifest":
			into = &m
		case "summary":
			into = &sum
		default:
			return nil, nil, fmt.Errorf("%s: unexpected order of members", path)
		}
		if err := dec.Decode(into); err != nil {
			return nil, nil, err
		}
		seen++
	}
	if seen < 3 {
		return nil, nil, fmt.Errorf("%s is not a trace", path)
	}
	return &m, &sum, checkSchema(path, schema)
}

// Prune removes all but the newest keep runs of each script below a trace directory, or of one
// script directory, and returns the directories removed. A run whose process is still at work stays
// however old it is. report.html is moved to the newest run left that has a report, or removed where
// none has. Nothing but run directories is ever removed: working copies and their backups stay.
func Prune(dir string, keep int) (removed []string, err error) {
	if keep < 0 {
		return nil, fmt.Errorf("can't keep %d runs", keep)
	}
	scripts := []string{""}
	if st, serr := os.Stat(filepath.Join(dir, recordsDir)); serr != nil || !st.IsDir() {
		if scripts, err = scriptNames(dir); err != nil {
			return nil, err
		}
	}
	for _, s := range scripts {
		gone, err := pruneScript(filepath.Join(dir, s), keep)
		removed = append(removed, gone...)
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

func pruneScript(scriptDir string, keep int) (removed []string, err error) {
	records := filepath.Join(scriptDir, recordsDir)
	names, err := runNames(records)
	if err != nil {
		return nil, err
	}
	var left []string // newest first
	for i := len(names) - 1; i >= 0; i-- {
		dir := filepath.Join(records, names[i])
		if keep > 0 {
			keep--
			left = append(left, dir)
			continue
		}
		if runAlive(dir) {
			left = append(left, dir)
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return removed, err
		}
		removed = append(removed, dir)
	}
	link := filepath.Join(scriptDir, reportFile)
	if _, err := os.Readlink(link); err != nil {
		return removed, nil // none, or a copy
	}
	if _, err := os.Stat(link); err == nil {
		return removed, nil
	}
	for _, dir := range left {
		if _, err := os.Stat(filepath.Join(dir, reportFile)); err == nil {
			return removed, PublishReport(scriptDir, dir)
		}
	}
	return removed, os.Remove(link)
}

// runAlive says whether a run has no end yet and its process is there.
func runAlive(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, traceFile)); err == nil {
		return false
	}
	if _, err := os.Stat(filepath.Join(dir, journalFile)); err != nil {
		return false // a foreign run, or one that never began
	}
	m := runPattern.FindStringSubmatch(filepath.Base(dir))
	pid, err := strconv.Atoi(m[2])
	return err == nil && pid > 0 && processAlive(pid)
}

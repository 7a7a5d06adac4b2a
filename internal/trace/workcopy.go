package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A working copy X is generated code that a user may edit. Beside it lie X.original, the baseline
// the edit is measured against, and X.latest, what the newest run generated. What a run does follows
// from the three, compared without trailing white space at the end and without regard to CRLF:
//
//	X against baseline     newest against baseline    what happens
//	no baseline, no X                                 all three written                           init
//	no baseline, X exists                             X kept as X.bak, then all three written     INIT-BACKUP
//	same                   same                       nothing                                     unchanged
//	same                   differs                    X and baseline become the newest            REGENERATED
//	differs                same                       X is what is compiled                       PATCHED
//	differs                differs, X is the newest   the baseline advances, X is used            SYNCED
//	differs                differs, X is another      X and baseline kept as X.bak and
//	                                                  X.original.bak, both regenerated            CONFLICT
//
// X missing, empty or white space only counts as not edited: it is written anew from the newest
// output (init without a baseline, REGENERATED with one). Backups are numbered X.bak, X.bak.2,
// X.bak.3, …, so that none is ever overwritten; the baseline's backup has the same number.

// CopyState is what an update found and did.
type CopyState string

// The states, as they are told to the user. CopyUnchanged is told by nothing.
const (
	CopyInit        CopyState = "init"
	CopyInitBackup  CopyState = "INIT-BACKUP"
	CopyUnchanged   CopyState = ""
	CopyRegenerated CopyState = "REGENERATED"
	CopyPatched     CopyState = "PATCHED"
	CopySynced      CopyState = "SYNCED"
	CopyConflict    CopyState = "CONFLICT"
)

const (
	baselineSuffix = ".original"
	latestSuffix   = ".latest"
	backupSuffix   = ".bak"

	copyTableFile = "workcopies.json" // in recordsDir
	copyLockFile  = "workcopies.lock"

	// lockTimeout bounds the wait for another run that updates the same working copies.
	lockTimeout = 10 * time.Second
	lockPoll    = 2 * time.Millisecond

	// maxCopyBytes bounds a working copy that is read.
	maxCopyBytes = 256 << 20
	// maxBackups bounds the numbers tried for a backup.
	maxBackups = 1_000_000
)

// CopyUpdate is what a run generated and for what.
type CopyUpdate struct {
	// ScriptDir is the input's script directory, where the working copies live and which of them
	// belongs to which kernel is noted. With it empty, Path must be given and Settings are not kept.
	ScriptDir string
	// Path, where set, is the working copy the user asked for instead of the one in ScriptDir.
	Path string

	Function string
	Target   string
	Newest   string   // the generated code
	Settings []Option // what else decides the code, --set first of all; a change is named as a cause

	DiffStat DiffStat // counts edited lines; nil: the lines between common head and tail

	beforeExchange func() // called just before the working copy is replaced, in tests
}

// CopyResult is what became of the working copy.
type CopyResult struct {
	State CopyState
	Path  string // the working copy
	Code  string // what is to be compiled: the working copy's text as it stands now
	// Edited counts the lines of the user's edit, in force (PATCHED) or set aside (CONFLICT,
	// INIT-BACKUP without a baseline counts 0).
	Edited  int
	Backups []string // files written to keep what was replaced
	// Message is one sentence for the user, empty for CopyUnchanged. Command, where set, shows the
	// edit that was set aside.
	Message string
	Command string
	// Cause names the settings that differ from those of the run before, empty for none.
	Cause string
}

// copyEntry is one working copy of a script directory.
type copyEntry struct {
	Function string   `json:"function"`
	Target   string   `json:"target"`
	File     string   `json:"file"`
	Settings []Option `json:"settings,omitempty"` // of the last run
}

type copyTable struct {
	Schema int         `json:"schema_version"`
	Copies []copyEntry `json:"copies"`
}

// UpdateWorkCopy brings a working copy up to date with what a run generated, and says which code is
// to be compiled. It is safe against other runs doing the same at the same time: one after the other
// gets its turn, and every file is replaced whole. An edit is never lost: what is replaced and is not
// known to be generated is kept in a backup.
func UpdateWorkCopy(u CopyUpdate) (CopyResult, error) {
	if u.DiffStat == nil {
		u.DiffStat = blockStat
	}
	lock := u.Path + ".lock"
	if u.ScriptDir != "" {
		if err := os.MkdirAll(filepath.Join(u.ScriptDir, recordsDir), 0o755); err != nil {
			return CopyResult{}, err
		}
		lock = filepath.Join(u.ScriptDir, recordsDir, copyLockFile)
	} else if u.Path == "" {
		return CopyResult{}, errors.New("working copy: neither a script directory nor a path")
	}
	unlock, err := waitLock(lock, lockTimeout)
	if err != nil {
		return CopyResult{}, err
	}
	defer unlock()
	if u.ScriptDir == "" {
		defer os.Remove(lock)
		return updateCopy(u.Path, u, "")
	}

	table, err := readCopyTable(u.ScriptDir)
	if err != nil {
		return CopyResult{}, err
	}
	entry := table.entry(u)
	path := u.Path
	if path == "" {
		path = filepath.Join(u.ScriptDir, entry.File)
	}
	cause := settingsCause(entry.Settings, u.Settings)
	if _, err := os.Stat(path + baselineSuffix); err != nil {
		cause = "" // nothing to compare with
	}
	res, err := updateCopy(path, u, cause)
	if err != nil {
		return res, err
	}
	res.Cause = cause
	entry.Settings = u.Settings
	return res, writeCopyTable(u.ScriptDir, table)
}

// waitLock takes the lock, waiting for whoever has it.
func waitLock(path string, timeout time.Duration) (unlock func(), err error) {
	for deadline := time.Now().Add(timeout); ; time.Sleep(lockPoll) {
		unlock, ok, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		if ok {
			return unlock, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s is held by another run for more than %v", path, timeout)
		}
	}
}

func readCopyTable(scriptDir string) (*copyTable, error) {
	path := filepath.Join(scriptDir, recordsDir, copyTableFile)
	data, err := readFileLimit(path, 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return &copyTable{Schema: SchemaVersion}, nil
	}
	if err != nil {
		return nil, err
	}
	var t copyTable
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &t, checkSchema(path, t.Schema)
}

func writeCopyTable(scriptDir string, t *copyTable) error {
	data, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	return replaceWhole(filepath.Join(scriptDir, recordsDir, copyTableFile), append(data, '\n'), 0o644)
}

// entry returns the working copy of the update's function and target, adding it when it is new: the
// first gets codegen.cpp, others codegen.<function>.<target>.cpp.
func (t *copyTable) entry(u CopyUpdate) *copyEntry {
	taken := map[string]bool{}
	for i := range t.Copies {
		e := &t.Copies[i]
		if e.Function == u.Function && e.Target == u.Target {
			return e
		}
		taken[strings.ToLower(e.File)] = true
	}
	file := "codegen.cpp"
	if taken[file] {
		file = "codegen." + fileName(u.Function) + "." + fileName(u.Target) + ".cpp"
		if taken[strings.ToLower(file)] { // differs in letter case only
			file = "codegen." + hashedName(fileName(u.Function), u.Function) + "." + fileName(u.Target) + ".cpp"
		}
	}
	t.Copies = append(t.Copies, copyEntry{Function: u.Function, Target: u.Target, File: file})
	return &t.Copies[len(t.Copies)-1]
}

// settingsCause names the settings that changed: "N changed from 1 to 2, M was 3 and is not set".
func settingsCause(before, now []Option) string {
	value := func(opts []Option, name string) (string, bool) {
		v, ok := "", false
		for _, o := range opts { // the last of several counts
			if o.Name == name {
				v, ok = o.Value, true
			}
		}
		return v, ok
	}
	var parts []string
	seen := map[string]bool{}
	for _, o := range append(append([]Option(nil), before...), now...) {
		if seen[o.Name] {
			continue
		}
		seen[o.Name] = true
		was, had := value(before, o.Name)
		is, has := value(now, o.Name)
		switch {
		case had && has && was != is:
			parts = append(parts, fmt.Sprintf("%s changed from %s to %s", o.Name, was, is))
		case had && !has:
			parts = append(parts, fmt.Sprintf("%s was %s and is not set now", o.Name, was))
		case !had && has:
			parts = append(parts, fmt.Sprintf("%s is now %s", o.Name, is))
		}
	}
	return strings.Join(parts, ", ")
}

// normal is a text as it is compared: LF line ends, no white space at the end.
func normal(s string) string {
	if strings.Contains(s, "\r") {
		s = strings.ReplaceAll(s, "\r\n", "\n")
	}
	return strings.TrimRight(s, " \t\r\n\v\f")
}

// updateCopy applies the rule to the files at path. The lock is held.
func updateCopy(path string, u CopyUpdate, cause string) (CopyResult, error) {
	// A user may keep the copy elsewhere and link to it: the link stays.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	res := CopyResult{Path: path}
	original, latest := path+baselineSuffix, path+latestSuffix
	have, haveX, err := readOptional(path)
	if err != nil {
		return res, err
	}
	base, haveBase, err := readOptional(original)
	if err != nil {
		return res, err
	}
	newest := u.Newest
	nX, nBase, nNew := normal(have), normal(base), normal(newest)
	blank := !haveX || nX == ""
	name := filepath.Base(path)
	because := ""
	if cause != "" {
		because = " because " + cause
	}

	c := copyWriter{path: path, had: have, hadFile: haveX, res: &res, beforeExchange: u.beforeExchange}
	switch {
	case !haveBase && blank:
		res.State = CopyInit
		res.Message = fmt.Sprintf("%s written", name)
		c.put(newest, nil)
		c.file(original, newest)
	case !haveBase:
		res.State = CopyInitBackup
		c.put(newest, nil)
		c.backup(have, "", false)
		c.file(original, newest)
		res.Message = fmt.Sprintf("%s was there without a baseline: kept as %s, and written anew", name, c.names())
	case blank && nBase != "":
		res.State = CopyRegenerated
		how := "missing"
		if haveX {
			how = "empty"
		}
		res.Message = fmt.Sprintf("%s was %s: written anew", name, how)
		c.put(newest, nil)
		c.file(original, newest)
	case nX == nBase && nNew == nBase:
		res.State = CopyUnchanged
	case nX == nBase:
		res.State = CopyRegenerated
		res.Message = fmt.Sprintf("%s follows the new output%s", name, because)
		c.put(newest, func(seen string) bool { return normal(seen) == nBase })
		c.file(original, newest)
	case nNew == nBase:
		res.State = CopyPatched
		res.Edited = editedLines(u.DiffStat, nBase, nX)
		res.Message = fmt.Sprintf("%s has %s: it is what is compiled", name, count(res.Edited, "edited line"))
	case nX == nNew:
		res.State = CopySynced
		res.Message = fmt.Sprintf("the new output%s equals your edit of %s: it is the baseline now", because, name)
		c.file(original, newest)
	default:
		res.State = CopyConflict
		res.Edited = editedLines(u.DiffStat, nBase, nX)
		c.put(newest, nil)
		c.backup(have, base, true)
		c.file(original, newest)
		if c.err == nil && len(res.Backups) == 2 {
			res.Command = fmt.Sprintf("diff -u %s %s", shellQuote(res.Backups[1]), shellQuote(res.Backups[0]))
		}
		res.Message = fmt.Sprintf("%s has %s and the output changed%s: your edit is kept as %s, the baseline as %s; both are regenerated",
			name, count(res.Edited, "edited line"), because, baseName(res.Backups, 0), baseName(res.Backups, 1))
	}
	c.file(latest, newest)
	if c.err != nil {
		return res, c.err
	}
	res.Code = newest
	switch res.State {
	case CopyPatched, CopySynced, CopyUnchanged:
		res.Code = have
	}
	return res, nil
}

func baseName(paths []string, i int) string {
	if i >= len(paths) {
		return "?"
	}
	return filepath.Base(paths[i])
}

// editedLines is the number of lines an edit touches: a line changed counts once.
func editedLines(stat DiffStat, base, edited string) int {
	add, del := stat(base+"\n", edited+"\n")
	return max(add, del)
}

// copyWriter collects the writes of one update. Planned writes happen in the order of calls, except
// that put only takes note and backup and file act, so that the working copy itself is replaced
// after its backup exists; the first error stops the rest.
type copyWriter struct {
	path    string
	had     string
	hadFile bool
	res     *CopyResult
	pending *string
	known   func(string) bool
	err     error

	beforeExchange func()
}

// put plans to replace the working copy by text. known, where given, says of a content found in its
// place at the last moment that it may be dropped.
func (c *copyWriter) put(text string, known func(string) bool) {
	c.pending, c.known = &text, known
}

// backup writes the edit, and with both the baseline, under the first number free for all of them.
func (c *copyWriter) backup(edit, base string, both bool) {
	if c.err != nil {
		return
	}
	for n := 1; n <= maxBackups; n++ {
		suffix := backupSuffix
		if n > 1 {
			suffix = fmt.Sprintf("%s.%d", backupSuffix, n)
		}
		x, o := c.path+suffix, c.path+baselineSuffix+suffix
		if exists(x) || exists(o) {
			continue
		}
		err := writeBackup(x, edit)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil && both {
			if err = writeBackup(o, base); errors.Is(err, fs.ErrExist) {
				_ = os.Remove(x)
				continue
			}
		}
		if c.err = err; err == nil {
			c.res.Backups = append(c.res.Backups, x)
			if both {
				c.res.Backups = append(c.res.Backups, o)
			}
		}
		return
	}
	c.err = fmt.Errorf("%s has too many backups", c.path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// writeBackup writes a file that must not exist, whole or not at all.
func writeBackup(path, text string) error { return writeNew(osDisk, path, 0o644, []byte(text)) }

func (c *copyWriter) names() string { return baseName(c.res.Backups, 0) }

// file replaces one of the files beside the working copy, after the working copy itself.
func (c *copyWriter) file(path, text string) {
	c.flush()
	if c.err == nil {
		c.err = replaceWhole(path, []byte(text), 0o644)
	}
}

// flush replaces the working copy. Should an editor have saved it since it was read, that content is
// kept as a backup too: the old file is held by a second link across the exchange and looked at again.
func (c *copyWriter) flush() {
	if c.pending == nil || c.err != nil {
		return
	}
	text := *c.pending
	c.pending = nil
	perm := os.FileMode(0o644)
	if st, err := os.Stat(c.path); err == nil {
		perm = st.Mode().Perm() | 0o200
	}
	if c.beforeExchange != nil {
		c.beforeExchange()
	}
	held := tempName(c.path, "held")
	_ = os.Remove(held)
	linked := os.Link(c.path, held) == nil
	if c.err = replaceWhole(c.path, []byte(text), perm); c.err != nil {
		_ = os.Remove(held)
		return
	}
	if !linked {
		return
	}
	defer os.Remove(held)
	last, ok, err := readOptional(held)
	if err != nil || !ok || last == c.had && c.hadFile {
		return
	}
	if n := normal(last); n == "" || n == normal(text) || c.known != nil && c.known(last) {
		return
	}
	c.backup(last, "", false)
}

// replaceWhole replaces a file in one step.
func replaceWhole(path string, data []byte, perm os.FileMode) error {
	tmp := tempName(path, "tmp")
	_ = os.Remove(tmp) // left by a killed process whose id this one got
	return replaceFile(osDisk, path, tmp, perm, data)
}

// tempName is a hidden name beside path that only this process uses. The lock keeps its goroutines
// apart.
func tempName(path, kind string) string {
	return filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.%s", filepath.Base(path), os.Getpid(), kind))
}

// readOptional reads a text file that may be missing.
func readOptional(path string) (text string, ok bool, err error) {
	data, err := readFileLimit(path, maxCopyBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return string(data), true, nil
}

// shellQuote writes a path so that a shell reads it as one word.
func shellQuote(s string) string {
	plain := s != ""
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+=:@%", r)) {
			plain = false
		}
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"unicode/utf8"
)

// Names inside a script directory.
const (
	recordsDir  = ".run_records"
	ownerFile   = "owner.json" // in recordsDir: whose script directory this is
	reportFile  = "report.html"
	traceFile   = "trace.json"
	timingFile  = "timing.json"
	journalFile = "journal.ndjson"
)

// StdinStem is the script directory's name for what is read from standard input.
const StdinStem = "stdin"

// owner is the content of ownerFile.
type owner struct {
	Input string `json:"input"` // see InputKey
}

// InputKey identifies an input file within a trace directory: its path relative to the trace
// directory, with slashes, so that a project moved as a whole keeps its script directories; the
// absolute path where there is no relative one. Both arguments must be absolute.
func InputKey(traceDir, path string) string {
	if rel, err := filepath.Rel(traceDir, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(filepath.Clean(path))
}

// EmbeddedKey and StdinKey identify inputs that are no files.
func EmbeddedKey(name string) string { return "embedded:" + name }

// StdinKey identifies standard input.
const StdinKey = "stdin:"

// ClaimScriptDir returns the directory below traceDir that belongs to the input with that key,
// making it when needed: <stem>, or <stem>-<hash8> when another input has <stem> already. A trace
// directory made here gets a .gitignore that keeps all of it out of version control. Two processes
// claiming at once get the answers they would get one after the other.
func ClaimScriptDir(traceDir, stem, key string) (string, error) {
	return claimScriptDir(osDisk, traceDir, stem, key)
}

// ScriptInput returns the key (see InputKey) of the input that a script directory belongs to.
func ScriptInput(scriptDir string) (string, error) {
	return readOwner(filepath.Join(scriptDir, recordsDir, ownerFile))
}

func claimScriptDir(d disk, traceDir, stem, key string) (string, error) {
	if _, err := os.Stat(traceDir); errors.Is(err, fs.ErrNotExist) {
		if err := d.MkdirAll(traceDir); err != nil {
			return "", err
		}
		err := writeNew(d, filepath.Join(traceDir, ".gitignore"), 0o644, []byte("*\n"))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	if !utf8.ValidString(key) { // JSON would not keep it
		key = strconv.QuoteToASCII(key)
	}
	name := fileName(stem)
	dir := filepath.Join(traceDir, name)
	mine, err := claim(d, dir, key)
	if err != nil || mine {
		return dir, err
	}
	dir = filepath.Join(traceDir, hashedName(name, key))
	mine, err = claim(d, dir, key)
	if err == nil && !mine {
		err = fmt.Errorf("%s belongs to another input", dir)
	}
	return dir, err
}

// claims numbers this process's temporary files; claimAttempts bounds the tries to get past those
// that a killed process with the same number left.
var claims atomic.Int64

const claimAttempts = 1000

// claim makes dir the key's unless it is another's already.
func claim(d disk, dir, key string) (mine bool, err error) {
	records := filepath.Join(dir, recordsDir)
	path := filepath.Join(records, ownerFile)
	if k, err := readOwner(path); err == nil {
		return k == key, nil
	}
	if err := d.MkdirAll(records); err != nil {
		return false, err
	}
	data, err := json.Marshal(owner{Input: key})
	if err != nil {
		return false, err
	}
	// A link appears with its content or not at all, and only one of two claimants can make it. The
	// file linked must be this claimant's own: another's may still be empty.
	var tmp string
	for range claimAttempts {
		tmp = filepath.Join(records, fmt.Sprintf(".%s.%d.%d", ownerFile, os.Getpid(), claims.Add(1)))
		if err = writeNew(d, tmp, 0o644, append(data, '\n')); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return false, err
	}
	defer d.Remove(tmp)
	if err := d.Link(tmp, path); err != nil {
		if k, rerr := readOwner(path); rerr == nil {
			return k == key, nil
		}
		// No hard links here: a rename is as whole, and the last of two claimants wins.
		if err := d.Rename(tmp, path); err != nil {
			return false, err
		}
	}
	k, err := readOwner(path)
	return k == key, err
}

func readOwner(path string) (string, error) {
	data, err := readFileLimit(path, 1<<20)
	if err != nil {
		return "", err
	}
	var o owner
	if err := json.Unmarshal(data, &o); err != nil {
		return "", err
	}
	return o.Input, nil
}

// PublishReport makes <scriptDir>/report.html the report of runDir, in one step: a symbolic link, or
// a copy where links are impossible. A caller publishes once when the report first exists and again
// at the end, which refreshes a copy.
func PublishReport(scriptDir, runDir string) error { return publishReport(osDisk, scriptDir, runDir) }

func publishReport(d disk, scriptDir, runDir string) error {
	id := filepath.Base(runDir)
	link := filepath.Join(scriptDir, reportFile)
	target := filepath.Join(recordsDir, id, reportFile)
	if have, err := os.Readlink(link); err == nil && have == target {
		return nil
	}
	tmp := filepath.Join(scriptDir, "."+reportFile+"."+id)
	_ = d.Remove(tmp) // left by a killed process that had this run's name: ours
	err := d.Symlink(target, tmp)
	if err == nil {
		if err = d.Rename(tmp, link); err == nil {
			return nil
		}
		_ = d.Remove(tmp)
		return err
	}
	data, rerr := os.ReadFile(filepath.Join(runDir, reportFile))
	if rerr != nil {
		return errors.Join(err, rerr)
	}
	return replaceFile(d, link, tmp, 0o644, data)
}

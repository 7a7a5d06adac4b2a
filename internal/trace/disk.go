package trace

import (
	"io"
	"os"
)

// disk is what the writer does to the file system, so that tests can make any of it fail.
type disk interface {
	MkdirAll(path string) error
	Mkdir(path string) error // fails when path exists
	// Create opens a new file for appending and fails when it exists.
	Create(path string, perm os.FileMode) (io.WriteCloser, error)
	Link(old, new string) error
	Symlink(target, path string) error
	Rename(old, new string) error
	Remove(path string) error
}

type realDisk struct{}

var osDisk disk = realDisk{}

func (realDisk) MkdirAll(path string) error { return os.MkdirAll(path, 0o755) }
func (realDisk) Mkdir(path string) error    { return os.Mkdir(path, 0o755) }
func (realDisk) Create(path string, perm os.FileMode) (io.WriteCloser, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, perm)
}
func (realDisk) Link(old, new string) error        { return os.Link(old, new) }
func (realDisk) Symlink(target, path string) error { return os.Symlink(target, path) }
func (realDisk) Rename(old, new string) error      { return os.Rename(old, new) }
func (realDisk) Remove(path string) error          { return os.Remove(path) }

// writeNew writes a file that must not exist yet. A file that could not be written whole is removed.
func writeNew(d disk, path string, perm os.FileMode, data []byte) error {
	f, err := d.Create(path, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = d.Remove(path)
	}
	return err
}

// replaceFile puts data at path in one step: readers see the old content or the new, never a part.
// tmp names a file in the same directory that nobody else uses.
func replaceFile(d disk, path, tmp string, perm os.FileMode, data []byte) error {
	if err := writeNew(d, tmp, perm, data); err != nil {
		return err
	}
	if err := d.Rename(tmp, path); err != nil {
		_ = d.Remove(tmp)
		return err
	}
	return nil
}

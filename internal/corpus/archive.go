package corpus

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// MaxWindow is the longest zstd window, in bytes, that the packer uses and the
// reader accepts. The texts repeat over their whole length, so the window must
// span the archive.
const MaxWindow = 1 << 27

// archive is a read-only file system over one unpacked tar archive. All file
// contents are substrings of one string, so handing out a text copies nothing.
type archive struct {
	files map[string]string   // path -> contents
	dirs  map[string][]string // directory path -> sorted base names of its entries
}

// openArchive unpacks the zstd-compressed tar file name.
func openArchive(name string) (*archive, error) {
	packed, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return readArchive(packed)
}

func readArchive(packed []byte) (*archive, error) {
	dec, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderMaxWindow(MaxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	var sb strings.Builder
	if _, err := io.Copy(&sb, dec); err != nil {
		return nil, err
	}
	all := sb.String()

	a := &archive{files: map[string]string{}, dirs: map[string][]string{}}
	seen := map[string]bool{".": true}
	r := strings.NewReader(all)
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if !fs.ValidPath(h.Name) || h.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("corpus: unexpected entry %q in archive", h.Name)
		}
		// tar.Reader reads whole blocks and nothing ahead: what is left in r
		// begins with this entry's contents.
		off := int64(len(all) - r.Len())
		if h.Size < 0 || off+h.Size > int64(len(all)) {
			return nil, fmt.Errorf("corpus: entry %q is cut off", h.Name)
		}
		a.files[h.Name] = all[off : off+h.Size]
		for p := h.Name; !seen[p]; p = path.Dir(p) {
			seen[p] = true
			d := path.Dir(p)
			a.dirs[d] = append(a.dirs[d], path.Base(p))
		}
	}
	for _, names := range a.dirs {
		sort.Strings(names)
	}
	return a, nil
}

// Open implements fs.FS.
func (a *archive) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if s, ok := a.files[name]; ok {
		return &file{info: info{path.Base(name), int64(len(s)), 0o444}, Reader: strings.NewReader(s)}, nil
	}
	if _, ok := a.dirs[name]; ok {
		entries, err := a.ReadDir(name)
		if err != nil {
			return nil, err
		}
		return &dir{info: info{path.Base(name), 0, fs.ModeDir | 0o555}, name: name, left: entries}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadFile implements fs.ReadFileFS.
func (a *archive) ReadFile(name string) ([]byte, error) {
	s, ok := a.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(s), nil
}

// ReadDir implements fs.ReadDirFS.
func (a *archive) ReadDir(name string) ([]fs.DirEntry, error) {
	names, ok := a.dirs[name]
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	out := make([]fs.DirEntry, len(names))
	for i, n := range names {
		if s, ok := a.files[path.Join(name, n)]; ok {
			out[i] = fs.FileInfoToDirEntry(info{n, int64(len(s)), 0o444})
		} else {
			out[i] = fs.FileInfoToDirEntry(info{n, 0, fs.ModeDir | 0o555})
		}
	}
	return out, nil
}

type info struct {
	name string
	size int64
	mode fs.FileMode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

type file struct {
	info
	*strings.Reader
}

// Size settles which of the two embedded Size methods is meant; they agree.
func (f *file) Size() int64                { return f.info.size }
func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

type dir struct {
	info
	name string
	left []fs.DirEntry
}

func (d *dir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *dir) Close() error               { return nil }
func (d *dir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: fs.ErrInvalid}
}

func (d *dir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		out := d.left
		d.left = nil
		return out, nil
	}
	if len(d.left) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.left))
	out := d.left[:n]
	d.left = d.left[n:]
	return out, nil
}

// Root returns the module's root directory: the nearest one, from the working
// directory upwards, that holds the go.mod of module lowertrace.
func Root() (string, error) {
	d, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		b, err := os.ReadFile(filepath.Join(d, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module lowertrace\n") {
			return d, nil
		}
		up := filepath.Dir(d)
		if up == d {
			return "", fmt.Errorf("corpus: no go.mod of module lowertrace above the working directory")
		}
		d = up
	}
}

// Command pack makes the packed reference corpus from a directory of it:
//
//	go run ./internal/corpus/pack SRC
//
// It writes testdata/reference/texts.tar.zst and arrays.tar.zst under the
// module's root. The same directory always gives the same bytes: entries are
// sorted and carry no times, owners or modes.
package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"

	"lowertrace/internal/corpus"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/corpus/pack SRC")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(src string) error {
	root, err := corpus.Root()
	if err != nil {
		return err
	}
	dst := filepath.Join(root, "testdata", "reference")
	if err := os.MkdirAll(dst, 0o777); err != nil {
		return err
	}
	var texts, arrays []string
	err = filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case strings.HasSuffix(rel, ".md"): // prose about the capture, not data
		case strings.HasSuffix(rel, ".npy"):
			arrays = append(arrays, rel)
		default:
			texts = append(texts, rel)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := pack(src, texts, filepath.Join(dst, "texts.tar.zst")); err != nil {
		return err
	}
	return pack(src, arrays, filepath.Join(dst, "arrays.tar.zst"))
}

func pack(src string, names []string, dst string) error {
	sort.Strings(names)
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(src, filepath.FromSlash(n)))
		if err != nil {
			return err
		}
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: n, Size: int64(len(b)), Mode: 0o444, Format: tar.FormatPAX}); err != nil {
			return err
		}
		if _, err := tw.Write(b); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(corpus.MaxWindow), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	packed := enc.EncodeAll(buf.Bytes(), nil)
	fmt.Printf("%s: %d files, %d bytes, packed %d\n", filepath.Base(dst), len(names), buf.Len(), len(packed))
	return os.WriteFile(dst, packed, 0o666)
}

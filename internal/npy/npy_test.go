package npy_test

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/npy"
)

// Every array of the corpus, all written by numpy, is read and written back
// byte for byte.
func TestRoundTrip(t *testing.T) {
	types := map[npy.DType]int{}
	err := fs.WalkDir(corpus.Arrays(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(corpus.Arrays(), p)
		if err != nil {
			return err
		}
		a, err := npy.Read(bytes.NewReader(b))
		if err != nil {
			t.Errorf("%s: %v", p, err)
			return nil
		}
		types[a.DType]++
		var out bytes.Buffer
		if err := npy.Write(&out, a); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if !bytes.Equal(out.Bytes(), b) {
			t.Errorf("%s: written back differently\nhave %q\nwant %q", p, out.Bytes()[:128], b[:128])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []npy.DType{"f2", "f4", "i4", "b1"} {
		if types[d] == 0 {
			t.Errorf("no array of type %s among %v", d, types)
		}
	}
}

func file(header string, data ...byte) string {
	return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(header)))) + header + string(data)
}

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		dtype    npy.DType
		shape    []int
		want     []float64
	}{
		{"scalar", file("{'descr': '<i2', 'fortran_order': False, 'shape': (), }\n", 0xfe, 0xff), "i2", nil, []float64{-2}},
		{"big-endian", file("{'descr': '>u4', 'fortran_order': False, 'shape': (1,), }", 0, 0, 1, 2), "u4", []int{1}, []float64{258}},
		{"one dimension in Fortran order", file("{'descr': '|i1', 'fortran_order': True, 'shape': (2,), }", 1, 255), "i1", []int{2}, []float64{1, -1}},
		{"half", file("{\"descr\": '<f2', 'shape': (4,), 'fortran_order': False}", 0, 0x3c, 1, 0, 0, 0xfc, 0xff, 0x7b), "f2", []int{4}, []float64{1, 0x1p-24, math.Inf(-1), 65504}},
		{"empty", file("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 0), }"), "f8", []int{3, 0}, nil},
		{"version 3", "\x93NUMPY\x03\x00\x39\x00\x00\x00{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }\x00\x01", "b1", []int{2}, []float64{0, 1}},
		{"uint64", file("{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }", 0, 0, 0, 0, 0, 0, 0, 0x80), "u8", []int{1}, []float64{0x1p63}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := npy.Read(strings.NewReader(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if a.DType != tc.dtype || !slices.Equal(a.Shape, tc.shape) {
				t.Errorf("have %s%v, want %s%v", a.DType, a.Shape, tc.dtype, tc.shape)
			}
			var got []float64
			for i := range a.Len() {
				got = append(got, a.Float(i))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("have %v, want %v", got, tc.want)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"empty file", "", "unexpected EOF"},
		{"other file", "PK\x03\x04........", "not a .npy file"},
		{"future version", "\x93NUMPY\x09\x00........", "unknown format version 9.0"},
		{"cut header", file("{'descr': '<f4'")[:20], "reading the header: unexpected EOF"},
		{"no end", file("{'descr': '<f4'"), "unexpected end"},
		{"object", file("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), `unknown element type "O"`},
		{"empty descr", file("{'descr': '', 'fortran_order': False, 'shape': (1,), }"), `unknown element type ""`},
		{"Fortran", file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }"), "Fortran order"},
		{"short data", file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 1, 2, 3), "3 bytes of data, shape and type need 8"},
		{"huge", file("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"), "larger than"},
		{"overflow", file("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"), "want a size"},
		{"negative", file("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), "want a word"},
		{"no shape", file("{'descr': '<f4', 'fortran_order': False}"), "lacks"},
		{"long header", "\x93NUMPY\x02\x00\xff\xff\xff\xff", "header of 4294967295 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := npy.Read(strings.NewReader(tc.in))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("have error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestNewAndSet(t *testing.T) {
	a, err := npy.New("i2", 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	a.SetUint(3, math.MaxUint64)
	if a.Int(3) != -1 || a.Int(2) != 0 || a.Uint(3) != 0xffff {
		t.Errorf("have %v", a.Data)
	}
	if _, err := npy.New("f4", 1<<20, 1<<20); err == nil {
		t.Error("an array over the limit was made")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(file("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", 0, 0, 0, 0, 0, 0, 0, 0)))
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := npy.Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := npy.Write(&out, a); err != nil {
			t.Fatal(err)
		}
		c, err := npy.Read(&out)
		if err != nil || c.DType != a.DType || !slices.Equal(c.Shape, a.Shape) || !bytes.Equal(c.Data, a.Data) {
			t.Fatalf("read back as %v, %v", c, err)
		}
	})
}

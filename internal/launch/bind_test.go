package launch

import (
	"maps"
	"strings"
	"testing"
)

const strided = `{"version": 1, "name": "f", "arch_lowered": "sm_80", "args": ["A", "C", "k"],
 "buffers": {"A": {"index": 0, "shape": ["m", "n"], "strides": ["s", 1], "dtype": "float32", "role": "in"},
  "C": {"index": 1, "shape": ["m", "2 * n"], "dtype": "float32", "role": "out"}},
 "scalars": {"k": {"index": 2, "dtype": "int8"}},
 "symbols": {"m": {"dtype": "int32", "buffer": "A", "dim": 0}, "n": {"dtype": "int32", "buffer": "A", "dim": 1}, "s": {"dtype": "int32", "buffer": "A", "stride": 0}},
 "launches": []}`

func TestBind(t *testing.T) {
	s, err := Parse([]byte(strided))
	if err != nil {
		t.Fatal(err)
	}
	k := map[string]int64{"k": -3}
	for _, tc := range []struct {
		name string
		a, c Extent
		k    map[string]int64
		want Env
		err  string
	}{
		{"strided", Extent{[]int64{5, 7}, []int64{16, 1}}, Extent{Shape: []int64{5, 14}}, k, Env{"m": 5, "n": 7, "s": 16, "k": -3}, ""},
		{"dense", Extent{Shape: []int64{5, 7}}, Extent{[]int64{5, 14}, []int64{14, 1}}, k, Env{"m": 5, "n": 7, "s": 7, "k": -3}, ""},
		{"a single row has any stride", Extent{[]int64{1, 7}, []int64{99, 1}}, Extent{[]int64{1, 14}, []int64{5, 1}}, k, Env{"m": 1, "n": 7, "s": 99, "k": -3}, ""},
		{"columns", Extent{[]int64{5, 7}, []int64{1, 5}}, Extent{Shape: []int64{5, 14}}, k, nil, "buffer A has stride 5 in dimension 1, which must be 1"},
		{"shape", Extent{Shape: []int64{5, 7}}, Extent{Shape: []int64{5, 7}}, k, nil, "buffer C has shape [5 7], but dimension 1 must be 2 * n = 14"},
		{"gaps", Extent{Shape: []int64{5, 7}}, Extent{[]int64{5, 14}, []int64{20, 1}}, k, nil, "buffer C has stride 20 in dimension 0, which must be 14"},
		{"rank", Extent{Shape: []int64{5}}, Extent{}, k, nil, "buffer A has shape [5], which is not of 2 dimensions"},
		{"no scalar", Extent{Shape: []int64{5, 7}}, Extent{Shape: []int64{5, 14}}, nil, nil, "scalar k is not given"},
		{"scalar out of range", Extent{Shape: []int64{5, 7}}, Extent{Shape: []int64{5, 14}}, map[string]int64{"k": 300}, nil, "scalar k: 300 does not fit type int8"},
		{"size out of range", Extent{Shape: []int64{1 << 40, 1}}, Extent{Shape: []int64{1 << 40, 2}}, k, nil, "symbol m: 1099511627776 does not fit type int32"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env, err := s.Bind(map[string]Extent{"A": tc.a, "C": tc.c}, tc.k)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("have %v, want an error with %q", err, tc.err)
				}
				return
			}
			if err != nil || !maps.Equal(env, tc.want) {
				t.Errorf("have %v, %v; want %v", env, err, tc.want)
			}
		})
	}
	if _, err := s.Bind(map[string]Extent{"A": {Shape: []int64{1, 1}}}, k); err == nil || !strings.Contains(err.Error(), "buffer C is not given") {
		t.Errorf("have %v", err)
	}
}

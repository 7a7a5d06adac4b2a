package judge

import (
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/npy"
)

// TestWrong checks that expected arrays are right, and that one bad element
// is seen, in every kernel of the corpus.
func TestWrong(t *testing.T) {
	for _, k := range corpus.Kernels() {
		Args(&k)
		res := &interp.Result{Outputs: map[string]*npy.Array{}}
		last := ""
		for _, p := range k.Params {
			if p.Kind != "scalar" && p.Role != "in" {
				last = p.Name
				res.Outputs[p.Name] = k.Array(p.Name + ".out")
			}
		}
		if d := Wrong(&k, res); d != "" {
			t.Errorf("%s: the expected arrays are wrong: %s", k.Name, d)
		}
		a := res.Outputs[last]
		for i := range a.Data { // all bits of one element
			if i < len(a.Data)/a.Len() {
				a.Data[i] ^= 0xff
			}
		}
		if d := Wrong(&k, res); !strings.HasPrefix(d, last+":") {
			t.Errorf("%s: a bad element of %s is not seen: %q", k.Name, last, d)
		}
		delete(res.Outputs, last)
		if d := Wrong(&k, res); d != last+" is not written" {
			t.Errorf("%s: a missing array is not seen: %q", k.Name, d)
		}
	}
}

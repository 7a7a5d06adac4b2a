package interp_test

import "testing"

// TestDP4A adds products of int8 of both signs to an accumulator.
func TestDP4A(t *testing.T) {
	res, err := runText(t, kernelText("1", `
a = T.alloc_buffer((8,), "int8", scope="local")
acc = T.alloc_buffer((1,), "int32", scope="local")
for i in range(8):
    a[i] = T.Cast("int8", N[tx] - i * 50)
acc[0] = 7
T.call_extern("handle", "DP4A", T.address_of(a[0]), T.address_of(a[4]), T.address_of(acc[0]))
Out[tx] = T.Cast("float32", acc[0])`))
	if err != nil {
		t.Fatal(err)
	}
	for x := range 128 {
		want := 7
		for i := range 4 {
			want += int(int8(x-i*50)) * int(int8(x-(i+4)*50))
		}
		if got := res.Outputs["Out"].Float(x); got != float64(want) {
			t.Fatalf("thread %d has %v, want %d", x, got, want)
		}
	}
}

// TestTVMShuffles gives the lanes' values to their neighbours.
func TestTVMShuffles(t *testing.T) {
	res, err := runText(t, kernelText("1", `
Out[tx] = T.Cast("float32", T.tvm_warp_shuffle(-1, N[tx], T.bitwise_xor(tx, 1) % 32, 32, 32) * 1000 + T.tvm_warp_shuffle_down(-1, N[tx], 2, 32, 32))`))
	if err != nil {
		t.Fatal(err)
	}
	for x := range 128 {
		down := x + 2
		if x%32 >= 30 {
			down = x
		}
		if got, want := res.Outputs["Out"].Float(x), float64((x^1)*1000+down); got != want {
			t.Fatalf("thread %d has %v, want %v", x, got, want)
		}
	}
}

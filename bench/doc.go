// Package bench holds the benchmarks of the whole program: what a user waits
// for. Benchmarks of a part lie beside it; bench/gpu is for GPUs.
package bench

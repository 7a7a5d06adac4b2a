// Package device holds the passes on the border of host and device: regions
// cut out into kernels, barriers placed between accesses to shared memory,
// the host function's packed interface, and the launch of kernels.
package device

const stage = "device"

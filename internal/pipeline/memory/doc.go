// Package memory holds the passes that decide where buffers live: where they
// are allocated, how their indices become addresses, and which of them share
// memory.
//
// One file holds one pass and is named after it; usage.go holds what several
// of them ask about the use of memory.
package memory

const stage = "memory"

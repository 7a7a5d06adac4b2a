// Package schedule holds the passes that decide when statements run: software
// pipelines over the iterations of a loop.
package schedule

const stage = "schedule"

// Package driver is what the commands do: it joins reading, pipelines,
// recording and rendering. Package main parses flags and calls it.
//
// Streams, environment, clock and identity come in through Deps; nothing here
// touches the process. Errors that carry an exit code are *ExitError.
package driver

package render

import (
	"fmt"

	"github.com/fatih/color"

	"lowertrace/internal/trace"
)

// ColorMode is what the user asked for with --color.
type ColorMode string

const (
	ColorAuto   ColorMode = "auto"
	ColorAlways ColorMode = "always"
	ColorNever  ColorMode = "never"
)

// ParseColorMode reads a --color value. The empty string is auto.
func ParseColorMode(s string) (ColorMode, error) {
	switch m := ColorMode(s); m {
	case "":
		return ColorAuto, nil
	case ColorAuto, ColorAlways, ColorNever:
		return m, nil
	}
	return "", fmt.Errorf("unknown color mode %q: use auto, always or never", s)
}

// Enabled decides whether a stream gets color. An explicit always or never wins. Otherwise NO_COLOR
// (set to anything but the empty string) means no, CLICOLOR_FORCE (neither empty nor 0) means yes,
// TERM=dumb and CLICOLOR=0 mean no, and a terminal means yes. getenv looks a variable up, as
// os.Getenv does.
func (m ColorMode) Enabled(getenv func(string) string, isTerminal bool) bool {
	switch m {
	case ColorAlways:
		return true
	case ColorNever:
		return false
	}
	if getenv("NO_COLOR") != "" {
		return false
	}
	if force := getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	if getenv("TERM") == "dumb" || getenv("CLICOLOR") == "0" {
		return false
	}
	return isTerminal
}

// Palette names the colors of added and removed lines.
type Palette string

const (
	// PaletteGreenRed is the usual one, and the default.
	PaletteGreenRed Palette = "green-red"
	// PaletteBlueOrange can be told apart with any color vision.
	PaletteBlueOrange Palette = "blue-orange"
)

// ParsePalette reads a palette's name. The empty string is the default.
func ParsePalette(s string) (Palette, error) {
	switch p := Palette(s); p {
	case "":
		return PaletteGreenRed, nil
	case PaletteGreenRed, PaletteBlueOrange:
		return p, nil
	}
	return "", fmt.Errorf("unknown palette %q: use green-red or blue-orange", s)
}

// styles are the colors of one stream.
type styles struct {
	enabled          bool
	add, del         *color.Color
	addWord, delWord *color.Color
	addSoft, delSoft *color.Color // of lines that differ in white space only
	hunk             *color.Color
	dim, bold        *color.Color
	remark           *color.Color
	status           map[string]*color.Color // by tag
}

func newStyles(enabled bool, p Palette) *styles {
	mk := func(attrs ...color.Attribute) *color.Color {
		c := color.New(attrs...)
		// Decided here for this stream, whatever the library found out about standard output.
		if enabled {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return c
	}
	add, del := color.FgGreen, color.FgRed
	if p == PaletteBlueOrange {
		add, del = color.FgBlue, color.FgYellow
	}
	return &styles{
		enabled: enabled,
		add:     mk(add), del: mk(del),
		addWord: mk(add, color.ReverseVideo), delWord: mk(del, color.ReverseVideo),
		addSoft: mk(add, color.Faint), delSoft: mk(del, color.Faint),
		hunk: mk(color.FgCyan), dim: mk(color.Faint), bold: mk(color.Bold),
		remark: mk(color.FgMagenta),
		status: map[string]*color.Color{
			TagChanged: mk(color.FgYellow, color.Bold),
			TagNoOp:    mk(color.Faint),
			TagFailed:  mk(color.FgRed, color.Bold),
			TagCodegen: mk(color.FgCyan, color.Bold),
			TagSkipped: mk(color.FgBlue),
		},
	}
}

// Tags of records.
const (
	TagChanged = "CHANGED"
	TagNoOp    = "NO-OP"
	TagFailed  = "FAILED"
	TagCodegen = "CODEGEN"
	TagSkipped = "SKIPPED"
)

// Tag says in one word what became of a record.
func Tag(r *trace.LowerRecord) string {
	switch r.Status {
	case trace.Failed:
		return TagFailed
	case trace.Skipped:
		return TagSkipped
	case trace.Codegen:
		return TagCodegen
	}
	if r.Changed {
		return TagChanged
	}
	return TagNoOp
}

package render

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Escape makes control characters visible: a byte below a blank other than tab and line feed, DEL,
// bytes that are no UTF-8, the C1 controls, and the characters that turn the direction of text. A
// terminal then shows a text and never obeys it.
func Escape(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\t' && c != '\n' || c >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1, r < ' ' && r != '\t' && r != '\n', r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r >= 0x80 && r < 0xa0, turnsText(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// EscapeLine escapes a name that has to stay on one line: tab and line feed as well.
func EscapeLine(s string) string {
	s = Escape(s)
	if !strings.ContainsAny(s, "\t\n") {
		return s
	}
	return strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(s)
}

func turnsText(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f ||
		r == 0x2028 || r == 0x2029
}

package render

import (
	"regexp"
	"slices"
	"strings"
)

// A function that MakePackedAPI has made callable from the host carries calling convention 1 (the
// packed C convention); a kernel has 2.
var hostMark = regexp.MustCompile(`"calling_conv": ?1\b`)

var defLine = regexp.MustCompile(`^\s*def ([A-Za-z_][A-Za-z_0-9]*)\(`)

// span is a range of lines, from 0, the end excluded.
type span struct{ from, to int }

// function is one function of a printed module.
type function struct {
	name string
	span
	host bool
}

// functions finds the functions of a module's text with their decorators. Text that is no module
// (CUDA, say) has none.
func functions(lines []string) []function {
	var out []function
	for i := 0; i < len(lines); i++ {
		m := defLine.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		depth := indentOf(lines[i])
		from := i
		for from > 0 && indentOf(lines[from-1]) == depth && strings.HasPrefix(strings.TrimSpace(lines[from-1]), "@") {
			from--
		}
		to := i + 1
		host := false
		for to < len(lines) && (strings.TrimSpace(lines[to]) == "" || indentOf(lines[to]) > depth) {
			if strings.Contains(lines[to], "T.func_attr(") && marksHost(lines[to]) {
				host = true
			}
			to++
		}
		for strings.TrimSpace(lines[to-1]) == "" {
			to--
		}
		out = append(out, function{m[1], span{from, to}, host})
		i = to - 1
	}
	return out
}

// hostLines finds the host code on both sides of a change. A function that is host code on one side
// is so on the other too, so that turning it into host code is folded as a whole.
func hostLines(before, after []string) (a, b []span) {
	if !anyHost(before) && !anyHost(after) {
		return nil, nil
	}
	fa, fb := functions(before), functions(after)
	host := map[string]bool{}
	for _, f := range slices.Concat(fa, fb) {
		if f.host {
			host[f.name] = true
		}
	}
	pick := func(fs []function) (out []span) {
		for _, f := range fs {
			if host[f.name] {
				out = append(out, f.span)
			}
		}
		return out
	}
	return pick(fa), pick(fb)
}

func anyHost(lines []string) bool {
	return slices.ContainsFunc(lines, marksHost)
}

// marksHost looks for the words before it asks the pattern, which is far slower.
func marksHost(line string) bool {
	return strings.Contains(line, `"calling_conv"`) && hostMark.MatchString(line)
}

func inside(spans []span, line int) bool {
	for _, s := range spans {
		if line >= s.from && line < s.to {
			return true
		}
	}
	return false
}

func indentOf(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

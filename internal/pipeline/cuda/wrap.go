package cuda

import "strings"

// maxLine is the length beyond which a statement is broken, in bytes, and
// minPiece how much a line holds at least, so that what no break helps stays
// together.
const (
	maxLine  = 120
	minPiece = 40
)

// statement prints a statement, broken into several lines when it is long. A
// break comes after a comma or before an operator: as far outside of
// parentheses as possible, at the operator that binds least there, and as late
// as possible among those.
func (g *gen) statement(s string) {
	indent := len("  ") * g.indent
	if indent+len(s) <= maxLine || strings.ContainsAny(s, "\"\n") {
		g.emit("%s", s)
		return
	}
	g.emit("%s", cutLine(&s, maxLine-indent))
	for s != "" {
		g.emit("    %s", cutLine(&s, maxLine-indent-4))
	}
}

// cutLine takes a line of at most the given length off the front of a
// statement.
func cutLine(s *string, limit int) string {
	t := *s
	if len(t) <= limit {
		*s = ""
		return t
	}
	best, bestRank, depth := -1, 0, 0
	for i := 0; i < len(t) && i <= limit; i++ {
		switch t[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ' ':
			comma := i > 0 && t[i-1] == ','
			assign := i > 1 && t[i-1] == '=' && t[i-2] == ' '
			binds := 0
			if !comma && !assign {
				var ok bool
				if binds, ok = operatorBinds(t[i+1:]); !ok {
					continue
				}
			}
			if i < minPiece && !assign {
				continue
			}
			if rank := depth<<8 + binds; best < 0 || rank <= bestRank {
				best, bestRank = i, rank
			}
		}
	}
	if best < 0 {
		*s = ""
		return t
	}
	*s = t[best+1:]
	return t[:best]
}

// operatorBinds is how tightly the binary operator at the beginning of a text
// binds; ok is false where there is none, or an assignment.
func operatorBinds(s string) (prec int, ok bool) {
	op, _, ok := strings.Cut(s, " ")
	if !ok {
		return 0, false
	}
	if op == "?" || op == ":" {
		return precTernary, true
	}
	o, ok := operators[op]
	return o.prec, ok
}

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
// break comes after a comma or before an operator, as far outside of
// parentheses as possible and as late as possible there.
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
	best, bestDepth, depth := -1, 0, 0
	for i := 0; i < len(t) && i <= limit; i++ {
		switch t[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ' ':
			after := t[i+1:]
			comma := i > 0 && t[i-1] == ','
			assign := i > 1 && t[i-1] == '=' && t[i-2] == ' '
			if i < minPiece && !assign || !comma && !assign && !beginsOperator(after) {
				continue
			}
			if best < 0 || depth <= bestDepth {
				best, bestDepth = i, depth
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

// beginsOperator reports a binary operator, but not an assignment, at the
// beginning of a text.
func beginsOperator(s string) bool {
	op, _, ok := strings.Cut(s, " ")
	return ok && (infix[op] || op == "?" || op == ":")
}

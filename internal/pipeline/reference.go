package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// referenceWidth is the column that running text of the reference is broken
// before.
const referenceWidth = 80

// Describe is what there is to know about a pass of a table: what it does,
// where it runs, precondition, effect, an example and its options. The text
// reads the same on a terminal and as Markdown. The rows must hold the pass.
func Describe(rows []Row, p *Pass) string {
	var b strings.Builder
	para := func(format string, args ...any) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(wrap(fmt.Sprintf(format, args...)))
	}
	para("%s%s.", strings.ToUpper(p.Doc[:1]), p.Doc[1:])
	para("%s", placeOf(rows, p))
	if p.Precondition != "" {
		para("Precondition: %s", p.Precondition)
	}
	if p.Effect != "" {
		para("Effect: %s", p.Effect)
	}
	for _, example := range []struct{ title, text string }{{"Before", p.Before}, {"After", p.After}} {
		if example.text != "" {
			para("%s:", example.title)
			b.WriteString("\n" + block(example.text))
		}
	}
	if len(p.Options) > 0 {
		para("Options:")
		b.WriteByte('\n')
		for _, key := range p.Options {
			o := optionTable[key]
			b.WriteString(block(fmt.Sprintf("%s=%v\n    %s", o.Key, o.Default, o.Doc)))
		}
	}
	return b.String()
}

// placeOf says of what stage a pass is, where in the table it runs, and
// whether it may be left out.
func placeOf(rows []Row, p *Pass) string {
	var at []string
	optional, conditional := true, false
	for i, r := range rows {
		if r.Pass.Name == p.Name {
			at = append(at, fmt.Sprintf("%d", i))
			optional = optional && r.Optional
			conditional = conditional || r.When != nil
		}
	}
	s := "Stage " + p.Stage + ", row " + at[0]
	if len(at) > 1 {
		s = "Stage " + p.Stage + ", rows " + strings.Join(at, ", ") + " (" + p.Name + "#1 to #" + fmt.Sprint(len(at)) + ")"
	}
	switch {
	case optional && conditional:
		return s + "; optional, and runs on a condition."
	case optional:
		return s + "; optional."
	case conditional:
		return s + "; runs on a condition."
	}
	return s + "; required."
}

// wrap breaks a paragraph into lines and ends it with a newline.
func wrap(s string) string {
	var b strings.Builder
	col := 0
	for _, word := range strings.Fields(s) {
		switch n := len([]rune(word)); {
		case col == 0:
			col = n
		case col+1+n > referenceWidth:
			b.WriteByte('\n')
			col = n
		default:
			b.WriteByte(' ')
			col += 1 + n
		}
		b.WriteString(word)
	}
	return b.String() + "\n"
}

// block indents a text so that Markdown takes it as it stands.
func block(s string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.Trim(s, "\n"), "\n") {
		b.WriteString(strings.TrimRight("    "+line, " ") + "\n")
	}
	return b.String()
}

// Reference is the pass reference in Markdown: each pipeline's table, then
// every pass in the order of its first run. Pipelines that run the same table
// share it.
func Reference(pipelines []Pipeline) string {
	var b strings.Builder
	b.WriteString("# Passes\n\n")
	b.WriteString(wrap("What each pipeline runs, in order, and what each pass needs and does. This page is generated from the table of passes: `go test ./internal/pipeline/cuda -run PassReference -update` writes it. `lowertrace passes NAME` prints the section of one pass."))
	b.WriteByte('\n')
	b.WriteString(wrap("A pass that stands in a table several times is NAME#k, and so it is named to `--stop-after`, `--start-at` and `--skip`. Optional passes may be left out with `--skip`: the kernel computes the same without them. The others may be left out as well, but then a later pass or the code generator may refuse the module."))
	tables := map[string]string{} // by labels: the pipeline that showed the table
	type shown struct {
		pass *Pass
		rows []Row // the table that has it first
	}
	var seen []shown
	for _, p := range pipelines {
		rows := p.Rows()
		fmt.Fprintf(&b, "\n## Pipeline %s\n\n", p.Name())
		key := strings.Join(rowNames(rows), " ")
		if first := tables[key]; first != "" {
			b.WriteString(wrap(fmt.Sprintf("The table of %s, its records under these phases:", first)))
			b.WriteByte('\n')
			for i := 0; i < len(rows); {
				j := i
				for j < len(rows) && rows[j].Phase == rows[i].Phase {
					j++
				}
				fmt.Fprintf(&b, "- rows %d to %d: %s\n", i, j-1, rows[i].Phase)
				i = j
			}
			continue
		}
		tables[key] = p.Name()
		b.WriteString("| row | pass | stage | phase | |\n|---:|---|---|---|---|\n")
		for i, r := range rows {
			fmt.Fprintf(&b, "| %d | [%s](#%s) | %s | %s | %s |\n", i, r.Label, strings.ToLower(r.Pass.Name), r.Pass.Stage, r.Phase, r.Pass.Doc)
			if !slices.ContainsFunc(seen, func(s shown) bool { return s.pass.Name == r.Pass.Name }) {
				seen = append(seen, shown{r.Pass, rows})
			}
		}
	}
	for _, s := range seen {
		fmt.Fprintf(&b, "\n## %s\n\n%s", s.pass.Name, Describe(s.rows, s.pass))
	}
	return b.String()
}

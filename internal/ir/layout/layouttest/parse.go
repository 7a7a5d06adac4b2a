// Package layouttest reads the layouts that the reference corpus states for
// its kernels. Only tests import it.
package layouttest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// Entry is one line of a layouts.tsv. Exactly one of Frag and Map is set.
type Entry struct {
	Kind string // "buffer" or "loop"
	Name string // of the buffer, or the loop's variable
	Text string
	Frag *layout.Frag
	Map  *layout.Map
}

var (
	fragRE = regexp.MustCompile(`^(?:Partial)?Fragment\(\(([^)]*)\) -> \(([^)]*)\), replicate: (\d+)(?: \([^)]*\))?, thread: (\d+), forward_thread: (.*), forward_index: \((.*)\), thread_range: I\.Range\((\d+), (\d+)\)\)$`)
	mapRE  = regexp.MustCompile(`^Layout\(\(([^)]*)\) -> \(([^)]*)\), transform: \(([^)]*)\) -> \((.*)\)\)$`)
)

// Parse reads a layouts.tsv.
func Parse(text string) ([]Entry, error) {
	var out []Entry
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line == "" {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 {
			return nil, fmt.Errorf("line %d has %d fields", i+1, len(f))
		}
		e := Entry{Kind: f[0], Name: f[1], Text: f[2]}
		if err := e.parse(); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		out = append(out, e)
	}
	return out, nil
}

func (e *Entry) parse() error {
	if m := fragRE.FindStringSubmatch(e.Text); m != nil {
		shape, err := ints(m[1])
		if err != nil {
			return err
		}
		rep, _ := strconv.ParseInt(m[3], 10, 64)
		lo, _ := strconv.ParseInt(m[7], 10, 64)
		hi, _ := strconv.ParseInt(m[8], 10, 64)
		thread, err := exprs(m[5])
		if err != nil {
			return err
		}
		index, err := exprs(m[6])
		if err != nil {
			return err
		}
		if len(thread) != 1 || len(index) != 1 {
			return fmt.Errorf("%d threads and %d indices", len(thread), len(index))
		}
		e.Frag, err = layout.NewFrag(shape, rep, thread[0], index[0], lo, hi-lo)
		return err
	}
	if m := mapRE.FindStringSubmatch(e.Text); m != nil {
		shape, err := ints(m[1])
		if err != nil {
			return err
		}
		fwd, err := exprs(m[4])
		if err != nil {
			return err
		}
		e.Map, err = layout.NewMap(shape, fwd...)
		return err
	}
	return fmt.Errorf("not a layout: %s", e.Text)
}

func ints(s string) ([]int64, error) {
	var out []int64
	for _, x := range strings.Split(s, ",") {
		if x = strings.TrimSpace(x); x == "" {
			continue
		}
		n, err := strconv.ParseInt(x, 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

type parser struct {
	s   string
	pos int
}

func exprs(s string) ([]ir.Expr, error) {
	p := &parser{s: s}
	var out []ir.Expr
	for {
		p.space()
		if p.pos == len(p.s) {
			return out, nil
		}
		e, err := p.sum()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		p.eat(",")
	}
}

func (p *parser) space() {
	for p.pos < len(p.s) && p.s[p.pos] == ' ' {
		p.pos++
	}
}

func (p *parser) eat(tok string) bool {
	p.space()
	if strings.HasPrefix(p.s[p.pos:], tok) {
		p.pos += len(tok)
		return true
	}
	return false
}

func (p *parser) sum() (ir.Expr, error) {
	e, err := p.product()
	for err == nil {
		op := ir.Add
		switch {
		case p.eat("+"):
		case p.eat("-"):
			op = ir.Sub
		default:
			return e, nil
		}
		var r ir.Expr
		if r, err = p.product(); err == nil {
			e = ir.NewBinary(op, e, r)
		}
	}
	return nil, err
}

func (p *parser) product() (ir.Expr, error) {
	e, err := p.atom()
	for err == nil {
		var op ir.BinOp
		switch {
		case p.eat("*"):
			op = ir.Mul
		case p.eat("//"):
			op = ir.FloorDiv
		case p.eat("%"):
			op = ir.FloorMod
		default:
			return e, nil
		}
		var r ir.Expr
		if r, err = p.atom(); err == nil {
			e = ir.NewBinary(op, e, r)
		}
	}
	return nil, err
}

func (p *parser) atom() (ir.Expr, error) {
	if p.eat("(") {
		e, err := p.sum()
		if err == nil && !p.eat(")") {
			err = fmt.Errorf("no ) at %q", p.s[p.pos:])
		}
		return e, err
	}
	if p.eat("_rep") {
		return layout.Rep, nil
	}
	for d := 0; d < layout.MaxDims; d++ {
		if p.eat(layout.Var(d).Name) {
			return layout.Var(d), nil
		}
	}
	start := p.pos
	for p.pos < len(p.s) && p.s[p.pos] >= '0' && p.s[p.pos] <= '9' {
		p.pos++
	}
	n, err := strconv.ParseInt(p.s[start:p.pos], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("no operand at %q", p.s[start:])
	}
	return ir.I32(n), nil
}

package tilelang

import (
	"fmt"
	"strings"
	"testing"
)

// TestSettings keeps what settings, defaults and calls in the file make of a
// kernel's parameters, which kernel is chosen, and what the file says of its
// compilation.
func TestSettings(t *testing.T) {
	goldens(t, "settings", ".want", func(t *testing.T, file, text string) string {
		prog, msg := loadWithDiags(t, file, text, optionsIn(t, text))
		if msg != "" {
			t.Fatal(msg)
		}
		return summary(prog)
	})
}

// summary tells of a program: a line per kernel in the file, parameter,
// buffer, run-time setting and pass option.
func summary(p *Program) string {
	var b strings.Builder
	for _, k := range p.Kernels {
		chosen := ""
		if k == p.Kernel {
			chosen = ", chosen"
		}
		fmt.Fprintf(&b, "kernel %s: %s%s\n", k.Name, k.Style, chosen)
	}
	for _, x := range p.Parameters {
		fmt.Fprintf(&b, "%s %s", x.Kind, x.Name)
		if x.Default != "" {
			fmt.Fprintf(&b, " = %s", x.Default)
		}
		b.WriteByte('\n')
	}
	f := p.Module.Funcs[0]
	fmt.Fprintf(&b, "function %s\n", f.Name)
	for _, v := range f.Params {
		if buf := f.BufferOf(v); buf != nil {
			var shape []string
			for _, e := range buf.Shape {
				shape = append(shape, exprText(e))
			}
			fmt.Fprintf(&b, "  %s: %s[%s]\n", buf.Name, buf.Type, strings.Join(shape, ", "))
		} else {
			fmt.Fprintf(&b, "  %s: %s\n", v.Name, v.Type)
		}
	}
	for _, s := range p.Runtime {
		fmt.Fprintf(&b, "at run time %s=%s\n", s.Name, s.Value)
	}
	for _, c := range p.PassConfigs {
		fmt.Fprintf(&b, "pass config %s = %s\n", c.Key, c.Value)
	}
	if p.Target != "" {
		fmt.Fprintf(&b, "target %s\n", p.Target)
	}
	return b.String()
}

package source

import (
	"fmt"
	"strings"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/tilelang"
)

// Hides tells whether the printed text of a kernel of the corpus hides
// something that lowering it needs.
func Hides(k *corpus.Kernel, arch string) bool {
	return strings.Contains(corpus.Text(k.Input(arch)), "metadata[")
}

// Module reads a kernel of the corpus before any pass. It panics if the corpus
// has no lowering of it for arch.
func Module(k *corpus.Kernel, arch string) (*ir.IRModule, error) {
	if !Hides(k, arch) {
		return script.ParseString(k.Name+".tir", corpus.Text(k.Input(arch)))
	}
	name := k.Name + ".py"
	return load(name, corpus.Text("src/"+name), nil)
}

// load evaluates TileLang source. Warnings are errors here.
func load(name, text string, set []tilelang.Setting) (*ir.IRModule, error) {
	m, diags := tilelang.Load(ir.NewSource(name, text), tilelang.Options{Set: set})
	for _, d := range diags.All() {
		return nil, d
	}
	if m == nil {
		return nil, fmt.Errorf("%s: no module", name)
	}
	return m, nil
}

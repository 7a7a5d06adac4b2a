package legalize

import (
	"testing"

	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/passtest"
)

// The checkers that run before everything else are unnamed in the reference.
var earlyCheckers = []string{"pass_fn#1", "pass_fn#2", "pass_fn#3"}

func TestNestedLoopChecker(t *testing.T) { checker(t, NestedLoopChecker, earlyCheckers...) }

func TestFragmentLoopChecker(t *testing.T) { checker(t, FragmentLoopChecker, earlyCheckers...) }

func TestTileOpChecker(t *testing.T) { checker(t, TileOpChecker, earlyCheckers...) }

func TestVerifyBufferInit(t *testing.T) { checker(t, VerifyBufferInit) }

func checker(t *testing.T, p *pipeline.Pass, names ...string) {
	passtest.Golden(t, p, "testdata/"+p.Name+"/*.txtar")
	passtest.Reference(t, p, names...)
}

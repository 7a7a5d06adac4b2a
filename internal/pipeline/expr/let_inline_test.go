package expr

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestLetInline(t *testing.T) {
	passtest.Golden(t, LetInline, "testdata/LetInline/*.txtar")
}

package loop

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestMergeIfStmt(t *testing.T) {
	passtest.Golden(t, MergeIfStmt, "testdata/MergeIfStmt/*.txtar")
}

func TestMergeIfStmtReference(t *testing.T) {
	passtest.Reference(t, MergeIfStmt)
}

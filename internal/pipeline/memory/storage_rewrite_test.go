package memory

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestStorageRewrite(t *testing.T) {
	passtest.Golden(t, StorageRewrite, "testdata/StorageRewrite/*.txtar")
}

func TestStorageRewriteReference(t *testing.T) {
	passtest.Reference(t, StorageRewrite)
}

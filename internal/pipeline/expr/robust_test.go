package expr

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestRobust(t *testing.T) {
	passtest.Robust(t, Simplify, LetInline, NarrowDataType, ConfigIndexBitwidth, RenormalizeSplitPattern, LowerIntrin, HoistBroadcastValues, DecoupleTypeCast)
}

package cuda

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

// TestNamesIn compares the names found in the helpers with those that regular
// expressions find.
func TestNamesIn(t *testing.T) {
	expressions := []*regexp.Regexp{
		regexp.MustCompile(`\b([A-Za-z_]\w*)(?:<[^<>()]*>)?\(`),
		regexp.MustCompile(`\bstruct (?:__align__\(\d+\) )?(\w+)`),
	}
	texts := []string{"f<int>(x) g <3>(y) struct a; 0x1p3f(2) h<k(1)>(2)", "struct __align__(8) b { int c; }; d<e"}
	for _, h := range helperTable {
		texts = append(texts, h.text)
	}
	for _, text := range texts {
		got, want := map[string]bool{}, map[string]bool{}
		namesIn(text, got)
		for _, re := range expressions {
			for _, f := range re.FindAllStringSubmatch(text, -1) {
				want[f[1]] = true
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %v, want %v in\n%s", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)), text)
		}
	}
}

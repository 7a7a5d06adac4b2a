package diag

import (
	"strconv"
	"strings"
)

// maxSuggestLen bounds the names Nearest compares: the work is quadratic in
// their length, and nobody misspells longer ones by a letter or two.
const maxSuggestLen = 64

// Nearest is the candidate closest to a misspelt name, "" if none is close:
// at most one edit in about three characters, where an edit inserts, removes
// or replaces a character or swaps two neighbours. Letter case does not count.
// Among equally close candidates the first one wins.
func Nearest(name string, candidates []string) string {
	if len(name) > maxSuggestLen {
		return ""
	}
	best, bestDist := "", (len(name)+1)/3+1
	for _, c := range candidates {
		if c == name || len(c) > maxSuggestLen || len(c)-len(name) >= bestDist || len(name)-len(c) >= bestDist {
			continue
		}
		if d := editDistance(name, c); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// editDistance is the optimal string alignment distance, ignoring case.
func editDistance(a, b string) int {
	var rows [3][maxSuggestLen + 1]int
	prev2, prev, cur := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if lower(a[i-1]) == lower(b[j-1]) {
				cost = 0
			}
			d := min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && lower(a[i-1]) == lower(b[j-2]) && lower(a[i-2]) == lower(b[j-1]) {
				d = min(d, prev2[j-2]+1)
			}
			cur[j] = d
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// Count is a number of things: "1 argument", "2 arguments".
func Count(n int, thing string) string {
	if n != 1 {
		if strings.HasSuffix(thing, "x") { // index
			return strconv.Itoa(n) + " " + strings.TrimSuffix(thing, "ex") + "ices"
		}
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

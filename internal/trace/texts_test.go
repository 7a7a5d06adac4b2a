package trace

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// Texts come back byte for byte, whatever they hold, written at once or a piece at a time.
func TestTextsRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	pool := []string{"", "a", "\r", "x = \"y\\z\"", "\tT.copy(A, B)", "\x00\x01\x1f\x7f", "\xff\xfe", "é\u2028漢", "</script>", "{\"base64\":\"\"}"}
	texts := []string{"", "\n", "\n\n", "a", "a\n", "\r\n"}
	for range 300 {
		var b strings.Builder
		for range rng.IntN(12) {
			b.WriteString(pool[rng.IntN(len(pool))])
			if rng.IntN(4) > 0 {
				b.WriteByte('\n')
			}
		}
		texts = append(texts, b.String())
	}
	s := newTextStore()
	var whole, parts textTable
	ids := make([]int, len(texts))
	var origins [][]int32
	for i, text := range texts {
		l, n, o := len(s.lines), len(s.texts), len(s.origins)
		ids[i] = s.text(text)
		list := make([]int32, rng.IntN(5))
		for k := range list {
			list[k] = int32(rng.IntN(3))
		}
		origins = append(origins, list)
		if got := s.origin(list); (got == -1) != (len(list) == 0) {
			t.Fatalf("origin of %v is %d", list, got)
		}
		addEncoded(t, &parts, s.appendTables([]byte(`{"x":0`), l, n, o, ",", ""))
	}
	addEncoded(t, &whole, s.appendTables([]byte(`{"x":0`), 0, 0, 0, ",\n", "\n"))
	for _, tab := range []*textTable{&whole, &parts} {
		for i, text := range texts {
			got, ok, err := tab.get(ids[i])
			if err != nil || !ok || got != text {
				t.Fatalf("text %d: %q, want %q (%v)", i, got, text, err)
			}
			o, err := tab.getOrigins(s.origin(origins[i]))
			if err != nil || len(o) != len(origins[i]) || len(o) > 0 && !reflect.DeepEqual(o, origins[i]) {
				t.Fatalf("origins %d: %v, want %v (%v)", i, o, origins[i], err)
			}
		}
	}
	seen := map[string]bool{}
	for _, l := range s.lines {
		if seen[l] {
			t.Errorf("line %q is stored twice", l)
		}
		seen[l] = true
	}
}

func addEncoded(t *testing.T, tab *textTable, b []byte) {
	t.Helper()
	b = append(b, '}')
	var doc traceDoc
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if err := tab.add(doc.Lines, doc.Texts, doc.Origins); err != nil {
		t.Fatal(err)
	}
}

// Two hundred states of two thousand lines, each pass changing one line in twenty, cost little more
// than the lines that are new.
func TestTextsAreStoredByLine(t *testing.T) {
	s := newTextStore()
	lines := make([]string, 2000)
	for i := range lines {
		lines[i] = fmt.Sprintf("        buffer_%d[i * %d + j] = T.float32(0)", i, i)
	}
	total := 0
	for p := range 200 {
		for k := range 100 {
			i := (p*37 + k*20) % len(lines)
			lines[i] = fmt.Sprintf("        buffer_%d[i * %d + j] = T.float32(%d)", i, i, p)
		}
		text := strings.Join(lines, "\n")
		s.text(text)
		total += len(text)
	}
	size := len(s.appendTables(nil, 0, 0, 0, ",", ""))
	if size*5 > total {
		t.Errorf("%d bytes of text take %d", total, size)
	}
}

package diag

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lowertrace/internal/ir"
)

func at(src *ir.Source, sub string) ir.Span {
	i := strings.Index(src.Text, sub)
	if i < 0 {
		panic("no " + sub)
	}
	return ir.Span{Src: src, Pos: int32(i), End: int32(i + len(sub))}
}

func TestWriteText(t *testing.T) {
	src := ir.NewSource("k.py", "A = T.alloc((16,), \"float16\")\n\tx = \"日本\" + T.copi(A)\r\nesc\x1b[31m = 1\n")
	var l List
	d := l.Errorf(at(src, "T.copi"), "unknown operator %s", "T.copi")
	d.Hint = "did you mean T.copy?"
	d.Notes = []Note{{at(src, "(16,)"), "shape declared here"}}
	l.Warnf(at(src, "esc\x1b[31m"), "strange name esc\x1b[31m")
	l.Errorf(ir.Span{}, "no function in the text")
	var b strings.Builder
	if err := l.WriteText(&b, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	want := `no function in the text
k.py:2:17: unknown operator T.copi
    2 |     x = "日本" + T.copi(A)
      |                  ^~~~~~
k.py:1:13: note: shape declared here
    1 | A = T.alloc((16,), "float16")
      |             ^~~~~
  hint: did you mean T.copy?
k.py:3:1: warning: strange name esc\x1B[31m
    3 | esc\x1B[31m = 1
      | ^~~~~~~~~~~
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
	b.Reset()
	l.WriteText(&b, TextOptions{Color: true})
	if !strings.Contains(b.String(), "\x1b[1;31m^~~~~~\x1b[0m") {
		t.Errorf("no colour in %q", b.String())
	}
}

func TestLongLine(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("a", 3000) + "HERE" + strings.Repeat("é", 3000),
		"HERE" + strings.Repeat("é", 3000),
		strings.Repeat("é", 3000) + "HERE",
	} {
		src := ir.NewSource("long", text)
		d := Diagnostic{Span: at(src, "HERE"), Message: "here"}
		lines := strings.Split(d.Text(), "\n")
		i, j := strings.Index(lines[1], "HERE"), strings.Index(lines[2], "^~~~")
		if i < 0 || j != len([]rune(lines[1][:i])) {
			t.Errorf("the caret is not under the word:\n%s", d.Text())
		}
		if n := len([]rune(lines[1])); n > maxLine+20 {
			t.Errorf("line of %d columns", n)
		}
	}
}

func TestListOrder(t *testing.T) {
	src := ir.NewSource("f", strings.Repeat("x", 1000))
	var l List
	for i := range 60 {
		p := int32((i * 37) % 50) // ten positions come twice
		l.Errorf(ir.Span{Src: src, Pos: p, End: p + 1}, "at %d", p)
	}
	all := l.All()
	if len(all) != 50 {
		t.Fatalf("%d diagnostics, want 50 different ones", len(all))
	}
	for i, d := range all {
		if d.Span.Pos != int32(i) {
			t.Fatalf("diagnostic %d is at %d", i, d.Span.Pos)
		}
	}
	var b strings.Builder
	l.WriteText(&b, TextOptions{})
	if want := fmt.Sprintf("and %d more\n", 50-MaxShown); !strings.HasSuffix(b.String(), want) {
		t.Errorf("does not end in %q", want)
	}
	if err := l.Err(); err == nil || err.Error() != "f:1:1: at 0 (and 49 more)" {
		t.Errorf("Err() = %v", err)
	}
	for range MaxKept + 10 {
		l.Errorf(ir.Span{}, "again").Hint = "counted only"
	}
	if !l.Full() {
		t.Error("not full")
	}
	var warn List
	warn.Warnf(ir.Span{}, "only a warning")
	if warn.Err() != nil {
		t.Error("a warning is an error")
	}
}

func TestJSON(t *testing.T) {
	src := ir.NewSource("f", "ab\ncd\n")
	var l List
	d := l.Errorf(ir.Span{Src: src, Pos: 1, End: 4}, "bad")
	d.Notes = []Note{{Message: "n"}}
	got, err := json.Marshal(&l)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"diagnostics":[{"severity":"error","place":{"file":"f","line":1,"col":2,"end_line":2,"end_col":2},"message":"bad","notes":[{"message":"n"}]}],"more":0}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var empty List
	if got, _ := json.Marshal(&empty); string(got) != `{"diagnostics":[],"more":0}` {
		t.Errorf("empty: %s", got)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"copy", "gemm", "reduce_max", "reduce_sum", "alloc_shared"}
	for in, want := range map[string]string{
		"cpoy": "copy", "COPY": "copy", "copyy": "copy", "gem": "gemm", "reduce_mxa": "reduce_max",
		"aloc_shred": "alloc_shared", "zzz": "", "x": "", "": "", strings.Repeat("a", 1000): "",
	} {
		if got := Nearest(in, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
}

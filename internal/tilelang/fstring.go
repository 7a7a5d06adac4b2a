package tilelang

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// fstring evaluates a formatted string.
func (in *interp) fstring(f *frame, e *syntax.FString) value {
	var sb strings.Builder
	for _, p := range e.Parts {
		switch p := p.(type) {
		case *syntax.Str:
			sb.WriteString(p.Value)
		case *syntax.FormatField:
			if p.Debug {
				src := in.file.Source.Text
				r := p.X.Range()
				if int(r.End) <= len(src) {
					sb.WriteString(src[r.Pos:r.End] + "=")
				}
			}
			v := in.eval(f, p.X)
			in.at = p.Loc
			spec := ""
			if p.Spec != nil {
				spec, _ = in.eval(f, p.Spec).(string)
			}
			switch {
			case p.Conv == 'r' || p.Conv == 'a' || p.Debug && p.Conv == 0 && spec == "":
				v = in.repr(v)
			case p.Conv == 's':
				v = in.str(v)
			}
			in.at = p.Loc
			sb.WriteString(in.format(v, spec))
		default:
			sb.WriteString(in.str(in.eval(f, p)))
		}
		if sb.Len() > MaxCells {
			in.cells(-1)
		}
	}
	in.cells(sb.Len() / 16)
	return sb.String()
}

// maxWidth bounds the width and precision of a format.
const maxWidth = 1000

// format is Python's format(v, spec).
func (in *interp) format(v value, spec string) string {
	if spec == "" {
		return in.str(v)
	}
	if c, ok := v.(*ir.IntImm); ok {
		v = c.Value
	}
	fill, align, sign, alt, zero, comma := ' ', byte(0), byte(0), false, false, byte(0)
	rs := []rune(spec)
	isAlign := func(r rune) bool { return strings.ContainsRune("<>^=", r) }
	switch {
	case len(rs) > 1 && isAlign(rs[1]):
		fill, align, rs = rs[0], byte(rs[1]), rs[2:]
	case len(rs) > 0 && isAlign(rs[0]):
		align, rs = byte(rs[0]), rs[1:]
	}
	take := func(set string) byte {
		if len(rs) > 0 && rs[0] < 128 && strings.ContainsRune(set, rs[0]) {
			c := byte(rs[0])
			rs = rs[1:]
			return c
		}
		return 0
	}
	sign = take("+- ")
	alt = take("#") != 0
	zero = take("0") != 0
	number := func() int {
		n := -1
		for len(rs) > 0 && rs[0] >= '0' && rs[0] <= '9' {
			n = max(n, 0)*10 + int(rs[0]-'0')
			if n > maxWidth {
				panic(in.errorf("a format %d wide: at most %d", n, maxWidth).is("ValueError"))
			}
			rs = rs[1:]
		}
		return n
	}
	width := number()
	comma = take(",_")
	prec := -1
	if take(".") != 0 {
		prec = number()
	}
	kind := take("bcdeEfFgGnosxX%")
	if len(rs) > 0 {
		panic(in.errorf("bad format %s", pyQuote(spec)).is("ValueError"))
	}
	body, neg := "", false
	i, fl, b, nk := number0(v)
	switch {
	case nk == 0:
		s, ok := textOf(v)
		if !ok {
			s = in.str(v)
		}
		if prec >= 0 && len([]rune(s)) > prec {
			s = string([]rune(s)[:prec])
		}
		body = s
		if align == 0 {
			align = '<'
		}
	case nk != 'f' && (kind == 0 || strings.IndexByte("bcdnoxX", kind) >= 0):
		x := toBig(i, b)
		neg = x.Sign() < 0
		x = new(big.Int).Abs(x)
		switch kind {
		case 'b':
			body = x.Text(2)
		case 'o':
			body = x.Text(8)
		case 'x':
			body = x.Text(16)
		case 'X':
			body = strings.ToUpper(x.Text(16))
		case 'c':
			body = string(rune(x.Int64()))
		default:
			body = x.String()
		}
		if alt && kind != 0 && strings.IndexByte("box", kind|0x20) >= 0 {
			body = "0" + string(kind) + body
		}
	default:
		if nk != 'f' {
			fl, _ = toFloat(v)
		}
		neg = fl < 0
		if neg {
			fl = -fl
		}
		p := prec
		if p < 0 {
			p = 6
		}
		switch kind {
		case 'f', 'F':
			body = strconv.FormatFloat(fl, 'f', p, 64)
		case 'e', 'E':
			body = strconv.FormatFloat(fl, kind, p, 64)
		case '%':
			body = strconv.FormatFloat(fl*100, 'f', p, 64) + "%"
		case 'g', 'G':
			body = formatG(fl, max(p, 1))
		case 0:
			if prec < 0 {
				body = pyFloat(fl)
			} else {
				body = formatG(fl, max(prec, 1))
			}
		default:
			panic(in.errorf("format %q of a float", kind).is("ValueError"))
		}
	}
	if comma != 0 && nk != 0 {
		body = group(body, string(comma))
	}
	s := ""
	if neg {
		s = "-"
	} else if nk != 0 && (sign == '+' || sign == ' ') {
		s = string(sign)
	}
	if align == 0 {
		align = '>'
		if zero {
			fill, align = '0', '='
		}
	}
	pad := width - len([]rune(body)) - len(s)
	if pad <= 0 {
		return s + body
	}
	fills := func(n int) string { return strings.Repeat(string(fill), n) }
	switch align {
	case '<':
		return s + body + fills(pad)
	case '^':
		return fills(pad/2) + s + body + fills(pad-pad/2)
	case '=':
		return s + fills(pad) + body
	}
	return fills(pad) + s + body
}

func number0(v value) (int64, float64, *big.Int, byte) {
	if _, ok := v.(bool); ok {
		return 0, 0, nil, 0
	}
	return number(v)
}

// formatG is the %g format of C.
func formatG(f float64, p int) string {
	s := strconv.FormatFloat(f, 'e', p-1, 64)
	mant, exp, _ := strings.Cut(s, "e")
	e, _ := strconv.Atoi(exp)
	trim := func(s string) string {
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	if e < -4 || e >= p {
		return fmt.Sprintf("%se%+03d", trim(mant), e)
	}
	return trim(strconv.FormatFloat(f, 'f', p-1-e, 64))
}

// group puts separators between thousands.
func group(s, sep string) string {
	end := strings.IndexAny(s, ".e%")
	if end < 0 {
		end = len(s)
	}
	head, tail := s[:end], s[end:]
	var out []string
	for len(head) > 3 {
		out = append([]string{head[len(head)-3:]}, out...)
		head = head[:len(head)-3]
	}
	return strings.Join(append([]string{head}, out...), sep) + tail
}

// percentFormat is "..." % args.
func (in *interp) percentFormat(s string, arg value) value {
	list := []value{arg}
	if t, ok := arg.(*tuple); ok {
		list = t.elts
	}
	var sb strings.Builder
	next := 0
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			sb.WriteByte(s[i])
			continue
		}
		i++
		if i < len(s) && s[i] == '%' {
			sb.WriteByte('%')
			continue
		}
		j := i
		for j < len(s) && strings.IndexByte("0123456789.+- #", s[j]) >= 0 {
			j++
		}
		if j == len(s) || next >= len(list) {
			panic(in.errorf("the format %s does not fit its arguments", pyQuote(s)).is("TypeError"))
		}
		spec, v := s[i:j], list[next]
		next++
		switch s[j] {
		case 's':
			if spec != "" && !strings.HasPrefix(spec, "-") {
				spec = ">" + spec
			}
			sb.WriteString(in.format(in.str(v), strings.Replace(spec, "-", "<", 1)))
		case 'r':
			sb.WriteString(in.repr(v))
		case 'd', 'i', 'x', 'X', 'o', 'f', 'F', 'e', 'E', 'g', 'G':
			k := s[j]
			if k == 'i' {
				k = 'd'
			}
			sb.WriteString(in.format(v, strings.Replace(spec, "-", "<", 1)+string(k)))
		default:
			panic(in.errorf("the format %s is not supported", pyQuote(s)).is("ValueError"))
		}
		i = j
	}
	if next != len(list) {
		panic(in.errorf("the format %s does not fit its arguments", pyQuote(s)).is("TypeError"))
	}
	in.cells(sb.Len() / 16)
	return sb.String()
}

func parsePyFloat(s string) (float64, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	switch strings.TrimLeft(s, "+-") {
	case "inf", "infinity", "nan":
	default:
		if strings.ContainsAny(s, "xpin") {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil
}

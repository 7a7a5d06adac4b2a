package layout

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"lowertrace/internal/ir"
)

// MaxPoints bounds the points a layout is tabulated at: product of the shape,
// times the replicas for fragments. A block's shared memory holds at most
// 228 KB on the targets known, a tile of registers less, so that real layouts
// stay far below.
const MaxPoints = 1 << 22

var errPoints = fmt.Errorf("more than %d points", MaxPoints)

// Evaluate computes an integer expression at every point of a box: vars[d]
// runs over 0..ext[d]-1, the last fastest. Variables not in vars, loads and
// calls other than bit operations are errors.
func Evaluate(e ir.Expr, vars []*ir.Var, ext []int64) ([]int64, error) {
	ev, err := newEvaluator(vars, ext, MaxPoints)
	if err != nil {
		return nil, err
	}
	c, err := ev.eval(e)
	if err != nil {
		return nil, err
	}
	return ev.table(c), nil
}

// newEvaluator is for a box of so many points at most; no column has more than
// MaxPoints.
func newEvaluator(vars []*ir.Var, ext []int64, most int64) (*evaluator, error) {
	n := int64(1)
	for _, x := range ext {
		if x <= 0 {
			return nil, fmt.Errorf("extent %d", x)
		}
		if x > most/n {
			return nil, fmt.Errorf("more than %d points", most)
		}
		n *= x
	}
	return &evaluator{vars: vars, ext: ext}, nil
}

// table is a column over all dimensions.
func (ev *evaluator) table(c column) []int64 { return ev.spread(c, uint(1)<<len(ev.ext)-1).data }

// column holds the values of an expression over the dimensions in mask, the
// others left out because it does not depend on them. Each has data of its own:
// an operation may put its result in the place of an operand.
type column struct {
	mask uint
	data []int64
}

type evaluator struct {
	vars []*ir.Var
	ext  []int64
}

// strides are those of a column's dimensions within its data, 0 for the
// dimensions it does not have.
func (ev *evaluator) strides(mask uint) []int64 {
	s := make([]int64, len(ev.ext))
	acc := int64(1)
	for d := len(ev.ext) - 1; d >= 0; d-- {
		if mask>>d&1 == 1 {
			s[d] = acc
			acc *= ev.ext[d]
		}
	}
	return s
}

func (ev *evaluator) size(mask uint) int64 {
	n := int64(1)
	for d, x := range ev.ext {
		if mask>>d&1 == 1 {
			n *= x
		}
	}
	return n
}

// rows calls f with the offsets of two columns along the points of mask: n
// points from number i on, at offset oa + k*da of column a and ob + k*db of b.
func (ev *evaluator) rows(mask uint, a, b uint, f func(i, n, oa, da, ob, db int64)) {
	n := ev.size(mask)
	switch {
	case a == mask && b == mask:
		f(0, n, 0, 1, 0, 1)
		return
	case a == mask && b == 0:
		f(0, n, 0, 1, 0, 0)
		return
	case a == 0 && b == mask:
		f(0, n, 0, 0, 0, 1)
		return
	}
	sa, sb := ev.strides(a), ev.strides(b)
	dims := make([]int, 0, len(ev.ext))
	for d := range ev.ext {
		if mask>>d&1 == 1 {
			dims = append(dims, d)
		}
	}
	// The last dimension is a row, the others an odometer. There is one: with
	// none all masks are equal.
	idx := make([]int64, len(dims)-1)
	last := dims[len(dims)-1]
	inner, da, db := ev.ext[last], sa[last], sb[last]
	var oa, ob int64
	for i := int64(0); i < n; i += inner {
		f(i, inner, oa, da, ob, db)
		for k := len(idx) - 1; k >= 0; k-- {
			d := dims[k]
			idx[k]++
			oa += sa[d]
			ob += sb[d]
			if idx[k] < ev.ext[d] {
				break
			}
			oa -= sa[d] * idx[k]
			ob -= sb[d] * idx[k]
			idx[k] = 0
		}
	}
}

func (ev *evaluator) spread(c column, mask uint) column {
	if c.mask == mask {
		return c
	}
	out := column{mask, make([]int64, ev.size(mask))}
	ev.rows(mask, c.mask, 0, func(i, n, oa, da, _, _ int64) {
		for k := range n {
			out.data[i+k] = c.data[oa+k*da]
		}
	})
	return out
}

func (ev *evaluator) eval(e ir.Expr) (column, error) {
	switch e := e.(type) {
	case *ir.IntImm:
		return column{0, []int64{e.Value}}, nil
	case *ir.Var:
		for d, v := range ev.vars {
			if v == e {
				if ev.ext[d] > MaxPoints {
					return column{}, errPoints
				}
				data := make([]int64, ev.ext[d])
				for i := range data {
					data[i] = int64(i)
				}
				return column{1 << d, data}, nil
			}
		}
		return column{}, &FreeVarError{e}
	case *ir.Cast:
		if !e.Type.IsInteger() || !e.Type.IsScalar() {
			return column{}, fmt.Errorf("a cast to %s", e.Type)
		}
		c, err := ev.eval(e.Value)
		if err != nil {
			return c, err
		}
		for i, v := range c.data {
			c.data[i] = ir.WrapInt(e.Type, v)
		}
		return c, nil
	case *ir.Binary:
		if c, ok := e.B.(*ir.IntImm); ok && c.Value > 0 {
			switch e.Op {
			case ir.FloorDiv, ir.FloorMod, ir.Mul:
				return ev.byConst(e.Op, e.A, c.Value)
			}
		}
		if e.Op == ir.Add {
			return ev.sum(e)
		}
		return ev.binary(e.A, e.B, binaryFunc(e.Op))
	case *ir.Not:
		return ev.binary(e.A, e.A, func(x, _ int64) (int64, bool) { return 1 - x, true })
	case *ir.Select:
		return ev.choose(e.Cond, e.True, e.False)
	case *ir.Call:
		if e.Op == nil {
			break
		}
		if f := bitFuncs[e.Op.Name]; f != nil {
			return ev.binary(e.Args[0], e.Args[1], f)
		}
		if e.Op.Name == "if_then_else" {
			return ev.choose(e.Args[0], e.Args[1], e.Args[2])
		}
		return column{}, fmt.Errorf("a call of T.%s", e.Op.Name)
	}
	return column{}, fmt.Errorf("an expression that is not integer arithmetic")
}

// byConst divides, takes the remainder or multiplies by a positive constant, as
// most of a layout does.
func (ev *evaluator) byConst(op ir.BinOp, a ir.Expr, c int64) (column, error) {
	out, err := ev.eval(a)
	if err != nil {
		return out, err
	}
	pow2 := c&(c-1) == 0
	shift := bits.TrailingZeros64(uint64(c))
	switch {
	case op == ir.FloorDiv && pow2:
		for i, x := range out.data {
			out.data[i] = x >> shift
		}
	case op == ir.FloorMod && pow2:
		for i, x := range out.data {
			out.data[i] = x & (c - 1)
		}
	case op == ir.FloorDiv:
		for i, x := range out.data {
			out.data[i] = ir.FloorDivInt(x, c)
		}
	case op == ir.FloorMod:
		for i, x := range out.data {
			out.data[i] = ir.FloorModInt(x, c)
		}
	default:
		f := binaryFunc(ir.Mul)
		for i, x := range out.data {
			v, ok := f(x, c)
			if !ok {
				return column{}, fmt.Errorf("an overflow")
			}
			out.data[i] = v
		}
	}
	return out, nil
}

// FreeVarError says that an expression uses a variable it must not.
type FreeVarError struct{ Var *ir.Var }

func (e *FreeVarError) Error() string { return fmt.Sprintf("the variable %s", e.Var.Name) }

// sum adds the addends of e: those over the same dimensions first, then from
// the smallest column to the largest, so that few of its additions are over all
// points.
func (ev *evaluator) sum(e ir.Expr) (column, error) {
	var cols []column
	var collect func(e ir.Expr) error
	collect = func(e ir.Expr) error {
		if b, ok := e.(*ir.Binary); ok && b.Op == ir.Add {
			if err := collect(b.A); err != nil {
				return err
			}
			return collect(b.B)
		}
		c, err := ev.eval(e)
		if err != nil {
			return err
		}
		for i := range cols {
			if cols[i].mask == c.mask {
				cols[i], err = ev.combine(cols[i], c, nil)
				return err
			}
		}
		cols = append(cols, c)
		return nil
	}
	if err := collect(e); err != nil {
		return column{}, err
	}
	slices.SortStableFunc(cols, func(a, b column) int { return cmp.Compare(len(a.data), len(b.data)) })
	out := cols[0]
	for _, c := range cols[1:] {
		var err error
		if out, err = ev.combine(out, c, nil); err != nil {
			return column{}, err
		}
	}
	return out, nil
}

func (ev *evaluator) binary(a, b ir.Expr, f func(x, y int64) (int64, bool)) (column, error) {
	if f == nil {
		return column{}, fmt.Errorf("an operator without integer meaning")
	}
	ca, err := ev.eval(a)
	if err != nil {
		return ca, err
	}
	cb, err := ev.eval(b)
	if err != nil {
		return cb, err
	}
	return ev.combine(ca, cb, f)
}

// combine applies f to columns that are not used any more; without f it adds.
func (ev *evaluator) combine(ca, cb column, f func(x, y int64) (int64, bool)) (column, error) {
	out := column{mask: ca.mask | cb.mask}
	switch out.mask {
	case ca.mask:
		out.data = ca.data
	case cb.mask:
		out.data = cb.data
	default:
		if ev.size(out.mask) > MaxPoints {
			return column{}, errPoints
		}
		out.data = make([]int64, ev.size(out.mask))
	}
	good := true
	ev.rows(out.mask, ca.mask, cb.mask, func(i, n, oa, da, ob, db int64) {
		to := out.data[i : i+n]
		if f == nil {
			for k := range to {
				v, ok := bounded(ca.data[oa] + cb.data[ob])
				to[k], good = v, good && ok
				oa, ob = oa+da, ob+db
			}
			return
		}
		for k := range to {
			v, ok := f(ca.data[oa], cb.data[ob])
			to[k], good = v, good && ok
			oa, ob = oa+da, ob+db
		}
	})
	if !good {
		return column{}, fmt.Errorf("a division by zero or an overflow")
	}
	return out, nil
}

func (ev *evaluator) choose(c, t, f ir.Expr) (column, error) {
	cc, err := ev.eval(c)
	if err != nil {
		return cc, err
	}
	ct, err := ev.eval(t)
	if err != nil {
		return ct, err
	}
	cf, err := ev.eval(f)
	if err != nil {
		return cf, err
	}
	mask := cc.mask | ct.mask | cf.mask
	if ev.size(mask) > MaxPoints {
		return column{}, errPoints
	}
	cc, ct, cf = ev.spread(cc, mask), ev.spread(ct, mask), ev.spread(cf, mask)
	for i, v := range cc.data {
		if v == 0 {
			ct.data[i] = cf.data[i]
		}
	}
	return ct, nil
}

// magnitude bounds what sums and products may reach: far beyond any index, far
// below what could wrap.
const magnitude = 1 << 40

func bounded(v int64) (int64, bool) { return v, v > -magnitude && v < magnitude }

func truth(b bool) (int64, bool) {
	if b {
		return 1, true
	}
	return 0, true
}

func binaryFunc(op ir.BinOp) func(x, y int64) (int64, bool) {
	switch op {
	case ir.Add:
		return func(x, y int64) (int64, bool) { return bounded(x + y) }
	case ir.Sub:
		return func(x, y int64) (int64, bool) { return bounded(x - y) }
	case ir.Mul:
		return func(x, y int64) (int64, bool) {
			if (x > 1<<20 || x < -1<<20) && (y > 1<<20 || y < -1<<20) {
				return 0, false
			}
			return bounded(x * y)
		}
	case ir.FloorDiv:
		return func(x, y int64) (int64, bool) {
			if y == 0 {
				return 0, false
			}
			return ir.FloorDivInt(x, y), true
		}
	case ir.FloorMod:
		return func(x, y int64) (int64, bool) {
			if y == 0 {
				return 0, false
			}
			return ir.FloorModInt(x, y), true
		}
	case ir.Div:
		return func(x, y int64) (int64, bool) {
			if y == 0 {
				return 0, false
			}
			return x / y, true
		}
	case ir.TruncMod:
		return func(x, y int64) (int64, bool) {
			if y == 0 {
				return 0, false
			}
			return x % y, true
		}
	case ir.Min:
		return func(x, y int64) (int64, bool) { return min(x, y), true }
	case ir.Max:
		return func(x, y int64) (int64, bool) { return max(x, y), true }
	case ir.EQ:
		return func(x, y int64) (int64, bool) { return truth(x == y) }
	case ir.NE:
		return func(x, y int64) (int64, bool) { return truth(x != y) }
	case ir.LT:
		return func(x, y int64) (int64, bool) { return truth(x < y) }
	case ir.LE:
		return func(x, y int64) (int64, bool) { return truth(x <= y) }
	case ir.GT:
		return func(x, y int64) (int64, bool) { return truth(x > y) }
	case ir.GE:
		return func(x, y int64) (int64, bool) { return truth(x >= y) }
	case ir.And:
		return func(x, y int64) (int64, bool) { return truth(x != 0 && y != 0) }
	case ir.Or:
		return func(x, y int64) (int64, bool) { return truth(x != 0 || y != 0) }
	}
	return nil
}

var bitFuncs = map[string]func(x, y int64) (int64, bool){
	"bitwise_xor": func(x, y int64) (int64, bool) { return x ^ y, true },
	"bitwise_and": func(x, y int64) (int64, bool) { return x & y, true },
	"bitwise_or":  func(x, y int64) (int64, bool) { return x | y, true },
	"shift_left": func(x, y int64) (int64, bool) {
		if y < 0 || y > 30 {
			return 0, false
		}
		return bounded(x << y)
	},
	"shift_right": func(x, y int64) (int64, bool) {
		if y < 0 || y > 62 {
			return 0, false
		}
		return x >> y, true
	},
}

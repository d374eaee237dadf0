package fakeads

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/examples/internal/gaql"
)

// cond is one condition of a plan. Between and During are a pair of values.
type cond struct {
	field *field
	op    gaql.Op
	vs    []value
}

// newCond checks that operator and values suit the field.
func newCond(f *field, c gaql.Condition, today day) (cond, *gaql.Error) {
	mismatch := func() (cond, *gaql.Error) {
		return cond{}, refuse(adspb.QueryErrorEnum_OPERATOR_FIELD_MISMATCH, c.Field, "%s does not go with %s", c.Op, f.name)
	}
	ordered := f.kind == kindInt || f.kind == kindFloat || f.kind == kindDate
	switch c.Op {
	case gaql.Gt, gaql.Ge, gaql.Lt, gaql.Le, gaql.Between:
		if !ordered {
			return mismatch()
		}
	case gaql.Like, gaql.NotLike:
		if f.kind != kindString {
			return mismatch()
		}
	case gaql.During:
		if f.kind != kindDate {
			return mismatch()
		}
		first, last, ok := during(strings.ToUpper(c.Values[0].Text), today)
		if !ok {
			return cond{}, &gaql.Error{Code: adspb.QueryErrorEnum_INVALID_VALUE_WITH_DURING_OPERATOR, Pos: c.Values[0].Pos,
				Message: "unknown date range " + c.Values[0].Text}
		}
		return cond{f, gaql.Between, []value{{i: int64(first)}, {i: int64(last)}}}, nil
	}
	vs := make([]value, len(c.Values))
	for i, v := range c.Values {
		var err *gaql.Error
		if vs[i], err = f.parse(v); err != nil {
			return cond{}, err
		}
	}
	return cond{f, c.Op, vs}, nil
}

// parse reads a literal as a value of the field.
func (f *field) parse(v gaql.Value) (value, *gaql.Error) {
	bad := func(code adspb.QueryErrorEnum_QueryError, want string) (value, *gaql.Error) {
		return value{}, &gaql.Error{Code: code, Pos: v.Pos, Message: v.Text + " is no " + want}
	}
	switch f.kind {
	case kindInt:
		n, err := strconv.ParseInt(v.Text, 10, 64)
		if err != nil {
			return bad(adspb.QueryErrorEnum_BAD_VALUE, "whole number")
		}
		return value{i: n}, nil
	case kindFloat:
		x, err := strconv.ParseFloat(v.Text, 64)
		if err != nil || v.Kind == gaql.Word {
			return bad(adspb.QueryErrorEnum_BAD_VALUE, "number")
		}
		return value{f: x}, nil
	case kindBool:
		switch strings.ToUpper(v.Text) {
		case "TRUE":
			return value{i: 1}, nil
		case "FALSE":
			return value{}, nil
		}
		return bad(adspb.QueryErrorEnum_BAD_VALUE, "truth value")
	case kindEnum:
		n, ok := f.enum[v.Text]
		if !ok {
			return bad(adspb.QueryErrorEnum_BAD_ENUM_CONSTANT, "constant of "+f.name)
		}
		return value{i: int64(n)}, nil
	case kindDate:
		d, ok := parseDay(v.Text)
		if !ok {
			return bad(adspb.QueryErrorEnum_INVALID_DATE_FORMAT, "date")
		}
		return value{i: int64(d)}, nil
	}
	if v.Kind != gaql.String {
		return bad(adspb.QueryErrorEnum_BAD_VALUE, "string")
	}
	return value{s: v.Text}, nil
}

// order compares two values of the field.
func (f *field) order(a, b value) int {
	switch f.kind {
	case kindFloat:
		return cmp.Compare(a.f, b.f)
	case kindString:
		return cmp.Compare(a.s, b.s)
	}
	return cmp.Compare(a.i, b.i)
}

// holds reports whether an item fulfils the condition. Nothing here is null.
func (c *cond) holds(it *item) bool {
	if len(c.vs) == 0 {
		return c.op == gaql.IsNotNull
	}
	v := c.field.get(it)
	o := c.field.order(v, c.vs[0])
	switch c.op {
	case gaql.Eq:
		return o == 0
	case gaql.Ne:
		return o != 0
	case gaql.Gt:
		return o > 0
	case gaql.Ge:
		return o >= 0
	case gaql.Lt:
		return o < 0
	case gaql.Le:
		return o <= 0
	case gaql.Between:
		return o >= 0 && c.field.order(v, c.vs[1]) <= 0
	case gaql.Like, gaql.NotLike:
		return like(v.s, c.vs[0].s) == (c.op == gaql.Like)
	}
	for _, w := range c.vs {
		if c.field.order(v, w) == 0 {
			return c.op == gaql.In
		}
	}
	return c.op == gaql.NotIn
}

// span returns the days that a condition on a date segment allows at most, and
// whether it bounds them from below and from above.
func (c *cond) span() (first, last day, from, to bool) {
	if c.field.kind != kindDate || len(c.vs) == 0 {
		return 0, 0, false, false
	}
	length := map[string]day{"segments.date": 0, "segments.week": 6, "segments.month": 30, "segments.quarter": 91}[c.field.name]
	lo, hi := day(c.vs[0].i), day(c.vs[0].i)
	for _, v := range c.vs[1:] {
		lo, hi = min(lo, day(v.i)), max(hi, day(v.i))
	}
	switch c.op {
	case gaql.Between: // as written, even the wrong way round
		return day(c.vs[0].i), day(c.vs[1].i) + length, true, true
	case gaql.Eq, gaql.In:
		return lo, hi + length, true, true
	case gaql.Gt, gaql.Ge:
		return lo, 0, true, false
	case gaql.Lt, gaql.Le:
		return 0, hi + length, false, true
	}
	return 0, 0, false, false
}

// like matches a pattern in which % is any text and _ any character; in square
// brackets they are themselves. It takes at most len(s) x len(pattern) steps.
func like(s, pattern string) bool {
	star, mark := -1, 0 // the last % and where in s it stopped
	i, j := 0, 0
	for i < len(s) {
		c, any, n := next(pattern[j:])
		switch {
		case n == 1 && any && c == '%':
			star, mark = j, i
			j++
		case n > 0 && (any || c == s[i]):
			i++
			j += n
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	for j < len(pattern) && pattern[j] == '%' {
		j++
	}
	return j == len(pattern)
}

// next returns the first character of a pattern, whether it is a wildcard, and
// how many bytes it takes: none at the end.
func next(pattern string) (c byte, any bool, n int) {
	switch {
	case pattern == "":
		return 0, false, 0
	case len(pattern) >= 3 && pattern[0] == '[' && pattern[2] == ']':
		return pattern[1], false, 3
	}
	return pattern[0], pattern[0] == '%' || pattern[0] == '_', 1
}

package gaql

import "github.com/flyball-go/flyball/examples/internal/adspb"

// condition reads one comparison.
func (p *parser) condition() (c Condition, err *Error) {
	var field []Name
	if err = p.name(&field); err != nil {
		return c, err
	}
	c.Field = field[0]
	if c.Op, err = p.operator(); err != nil {
		return c, err
	}
	switch c.Op {
	case IsNull, IsNotNull:
	case In, NotIn:
		c.Values, err = p.values()
	default:
		var v Value
		if v, err = p.value(); err != nil {
			return c, err
		}
		c.Values = []Value{v}
		if c.Op == During && v.Kind != Word {
			return c, fail(adspb.QueryErrorEnum_INVALID_VALUE_WITH_DURING_OPERATOR, v.Pos, "%q is no date range", v.Text)
		}
		if c.Op == Between {
			if err = p.keyword("AND", adspb.QueryErrorEnum_EXPECTED_AND); err != nil {
				return c, err
			}
			v, err = p.value()
			c.Values = append(c.Values, v)
		}
	}
	return c, err
}

// operator reads a symbol, or one or more words.
func (p *parser) operator() (Op, *Error) {
	t := p.tok
	for op := Eq; op <= Le; op++ {
		if t.kind == tokSymbol && t.text == op.String() {
			return op, p.advance()
		}
	}
	bad := func() (Op, *Error) {
		return 0, p.unexpected(adspb.QueryErrorEnum_BAD_OPERATOR, "an operator")
	}
	for _, op := range []Op{In, Like, Between, During} {
		if t.is(op.String()) {
			return op, p.advance()
		}
	}
	not := t.is("NOT")
	if !not && !t.is("IS") {
		return bad()
	}
	if err := p.advance(); err != nil {
		return 0, err
	}
	if not {
		for op, negated := range map[Op]Op{In: NotIn, Like: NotLike} {
			if p.tok.is(op.String()) {
				return negated, p.advance()
			}
		}
		return bad()
	}
	op := IsNull
	if ok, err := p.accept("NOT"); err != nil {
		return 0, err
	} else if ok {
		op = IsNotNull
	}
	if !p.tok.is("NULL") {
		return bad()
	}
	return op, p.advance()
}

// values reads a list in parentheses.
func (p *parser) values() (vs []Value, err *Error) {
	if err = p.keyword("(", adspb.QueryErrorEnum_EXPECTED_LIST); err != nil {
		return nil, err
	}
	if p.tok.is(")") {
		return nil, fail(adspb.QueryErrorEnum_PROHIBITED_EMPTY_LIST_IN_CONDITION, p.tok.pos, "list is empty")
	}
	err = p.list(func() *Error {
		v, err := p.value()
		vs = append(vs, v)
		return err
	})
	if err == nil {
		err = p.keyword(")", adspb.QueryErrorEnum_UNEXPECTED_INPUT)
	}
	return vs, err
}

// value reads a single literal.
func (p *parser) value() (Value, *Error) {
	v := Value{Text: p.tok.text, Pos: p.tok.pos}
	switch p.tok.kind {
	case tokWord:
		v.Kind = Word
	case tokNumber:
		v.Kind = Number
	case tokString:
		v.Kind = String
	default:
		return v, p.unexpected(adspb.QueryErrorEnum_BAD_VALUE, "a value")
	}
	return v, p.advance()
}

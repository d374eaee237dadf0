package gaql

import (
	"strconv"
	"strings"

	"github.com/flyball-go/flyball/examples/internal/adspb"
)

// Parse reads one query. Its error is an *Error.
func Parse(src string) (*Query, error) {
	p := parser{lex: lexer{src: src}}
	q, err := p.query()
	if err != nil {
		return nil, err
	}
	return q, nil
}

// parser is a recursive descent with one token of lookahead, in tok.
type parser struct {
	lex lexer
	tok token
}

func (p *parser) advance() (err *Error) {
	p.tok, err = p.lex.next()
	return err
}

// unexpected is the error for a token that cannot stand here, code unless the
// query just ended too early.
func (p *parser) unexpected(code adspb.QueryErrorEnum_QueryError, want string) *Error {
	if p.tok.kind == tokEnd {
		return fail(adspb.QueryErrorEnum_UNEXPECTED_END_OF_QUERY, p.tok.pos, "query ends where %s is expected", want)
	}
	return fail(code, p.tok.pos, "found %q where %s is expected", p.tok.text, want)
}

// keyword reads the given keyword or symbol.
func (p *parser) keyword(word string, code adspb.QueryErrorEnum_QueryError) *Error {
	if !p.tok.is(word) {
		return p.unexpected(code, word)
	}
	return p.advance()
}

// accept reads the given keyword or symbol if it is next.
func (p *parser) accept(word string) (bool, *Error) {
	if !p.tok.is(word) {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) query() (*Query, *Error) {
	q := &Query{}
	err := p.advance()
	if err == nil {
		if p.tok.kind == tokEnd {
			return nil, fail(adspb.QueryErrorEnum_EXPECTED_SELECT, 0, "query is empty")
		}
		err = p.keyword("SELECT", adspb.QueryErrorEnum_EXPECTED_SELECT)
	}
	if err == nil {
		err = p.list(func() *Error { return p.name(&q.Select) })
	}
	if err == nil && p.tok.kind == tokEnd {
		err = fail(adspb.QueryErrorEnum_EXPECTED_FROM, p.tok.pos, "query has no FROM clause")
	}
	if err == nil {
		err = p.keyword("FROM", adspb.QueryErrorEnum_EXPECTED_FROM)
	}
	if err == nil {
		var from []Name
		if err = p.name(&from); err == nil {
			q.From = from[0]
		}
	}
	clauses := []struct {
		word string
		read func(*Query) *Error
	}{{"WHERE", p.where}, {"ORDER", p.orderBy}, {"LIMIT", p.limit}, {"PARAMETERS", p.parameters}}
	for _, c := range clauses {
		if err != nil {
			break
		}
		var ok bool
		if ok, err = p.accept(c.word); ok && err == nil {
			err = c.read(q)
		}
	}
	if err == nil && p.tok.kind != tokEnd {
		err = p.unexpected(adspb.QueryErrorEnum_UNEXPECTED_INPUT, "the end of the query")
	}
	return q, err
}

// list reads item (, item)*.
func (p *parser) list(item func() *Error) *Error {
	for {
		if err := item(); err != nil {
			return err
		}
		if more, err := p.accept(","); err != nil || !more {
			return err
		}
	}
}

// name reads a field, resource or parameter name: lower case first, and no
// keyword in its place.
func (p *parser) name(into *[]Name) *Error {
	if p.tok.kind != tokWord || reserved[strings.ToUpper(p.tok.text)] {
		return p.unexpected(adspb.QueryErrorEnum_UNEXPECTED_INPUT, "a name")
	}
	t := p.tok.text
	if t[0] < 'a' || t[0] > 'z' || strings.HasSuffix(t, ".") || strings.Contains(t, "..") {
		return fail(adspb.QueryErrorEnum_BAD_FIELD_NAME, p.tok.pos, "bad name %q", t)
	}
	*into = append(*into, Name{t, p.tok.pos})
	return p.advance()
}

var reserved = map[string]bool{"SELECT": true, "FROM": true, "WHERE": true, "ORDER": true, "BY": true,
	"LIMIT": true, "PARAMETERS": true, "AND": true, "ASC": true, "DESC": true}

func (p *parser) where(q *Query) *Error {
	for {
		c, err := p.condition()
		if err != nil {
			return err
		}
		q.Where = append(q.Where, c)
		if more, err := p.accept("AND"); err != nil || !more {
			return err
		}
	}
}

func (p *parser) orderBy(q *Query) *Error {
	if err := p.keyword("BY", adspb.QueryErrorEnum_EXPECTED_BY); err != nil {
		return err
	}
	return p.list(func() *Error {
		var field []Name
		if err := p.name(&field); err != nil {
			return err
		}
		o := Order{Field: field[0]}
		asc, err := p.accept("ASC")
		if err == nil && !asc {
			o.Desc, err = p.accept("DESC")
		}
		q.OrderBy = append(q.OrderBy, o)
		return err
	})
}

func (p *parser) limit(q *Query) *Error {
	if p.tok.kind != tokNumber {
		return p.unexpected(adspb.QueryErrorEnum_BAD_LIMIT_VALUE, "a number")
	}
	n, e := strconv.ParseInt(p.tok.text, 10, 64)
	if e != nil {
		return fail(adspb.QueryErrorEnum_BAD_LIMIT_VALUE, p.tok.pos, "bad limit %q", p.tok.text)
	}
	if n < 1 {
		return fail(adspb.QueryErrorEnum_LIMIT_VALUE_TOO_LOW, p.tok.pos, "limit %d is less than 1", n)
	}
	q.Limit = n
	return p.advance()
}

func (p *parser) parameters(q *Query) *Error {
	return p.list(func() *Error {
		var name []Name
		if err := p.name(&name); err != nil {
			return err
		}
		if err := p.keyword("=", adspb.QueryErrorEnum_UNEXPECTED_INPUT); err != nil {
			return err
		}
		v, err := p.value()
		q.Parameters = append(q.Parameters, Parameter{name[0], v})
		return err
	})
}

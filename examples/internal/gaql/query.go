// Package gaql parses the Google Ads Query Language.
//
// It knows the grammar and nothing else: which resources and fields there are,
// and which of them go together, is for the reader of a Query to decide. Errors
// carry the code that Google's own parser answers with.
package gaql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flyball-go/flyball/examples/internal/adspb"
)

// Query is a parsed query. Its names are as written, since field names are case
// sensitive; keywords are not.
type Query struct {
	Select     []Name
	From       Name
	Where      []Condition // all of them must hold
	OrderBy    []Order
	Limit      int64 // 0: none
	Parameters []Parameter
}

// Name is a field, a resource or a parameter, and where it stands.
type Name struct {
	Text string
	Pos  int // offset in the query, in bytes
}

// Condition is one part of the WHERE clause.
type Condition struct {
	Field  Name
	Op     Op
	Values []Value // none for the null tests, two for Between, any number for In and NotIn, else one
}

// Order is one part of the ORDER BY clause.
type Order struct {
	Field Name
	Desc  bool
}

// Parameter is one part of the PARAMETERS clause.
type Parameter struct {
	Name  Name
	Value Value
}

// Value is a literal. Text is without its quotes.
type Value struct {
	Kind Kind
	Text string
	Pos  int
}

// Kind says how a Value was written.
type Kind uint8

const (
	Word   Kind = iota // ENABLED, LAST_7_DAYS, TRUE
	Number             // 12, -0.5
	String             // 'text' or "text"
)

// Op is a comparison.
type Op uint8

const (
	Eq Op = iota
	Ne
	Gt
	Ge
	Lt
	Le
	In
	NotIn
	Like
	NotLike
	IsNull
	IsNotNull
	Between
	During
)

var opText = [...]string{"=", "!=", ">", ">=", "<", "<=", "IN", "NOT IN", "LIKE", "NOT LIKE", "IS NULL", "IS NOT NULL", "BETWEEN", "DURING"}

// String returns the operator as it is written in a query.
func (o Op) String() string { return opText[o] }

// Error is a query that Google would refuse, or that the reader of a Query
// refuses in the same way.
type Error struct {
	Code    adspb.QueryErrorEnum_QueryError
	Message string
	Pos     int // offset in the query, in bytes
}

// Error says what is wrong and where.
func (e *Error) Error() string {
	return fmt.Sprintf("%s at %d: %s", e.Code, e.Pos, e.Message)
}

// String returns the query in one line; parsing it gives the same query.
func (q *Query) String() string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for i, f := range q.Select {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.Text)
	}
	b.WriteString(" FROM " + q.From.Text)
	for i, c := range q.Where {
		b.WriteString([]string{" WHERE ", " AND "}[min(i, 1)])
		c.write(&b)
	}
	for i, o := range q.OrderBy {
		b.WriteString([]string{" ORDER BY ", ", "}[min(i, 1)] + o.Field.Text)
		if o.Desc {
			b.WriteString(" DESC")
		}
	}
	if q.Limit > 0 {
		b.WriteString(" LIMIT " + strconv.FormatInt(q.Limit, 10))
	}
	for i, p := range q.Parameters {
		b.WriteString([]string{" PARAMETERS ", ", "}[min(i, 1)] + p.Name.Text + " = ")
		p.Value.write(&b)
	}
	return b.String()
}

func (c *Condition) write(b *strings.Builder) {
	b.WriteString(c.Field.Text + " " + c.Op.String())
	sep, end := " ", ""
	switch c.Op {
	case In, NotIn:
		sep, end = " (", ")"
	}
	for i, v := range c.Values {
		b.WriteString(sep)
		v.write(b)
		sep = ", "
		if c.Op == Between && i == 0 {
			sep = " AND "
		}
	}
	b.WriteString(end)
}

var quoter = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

func (v *Value) write(b *strings.Builder) {
	if v.Kind == String {
		b.WriteString("'" + quoter.Replace(v.Text) + "'")
		return
	}
	b.WriteString(v.Text)
}

package gaql

import (
	"fmt"
	"strings"

	"github.com/flyball-go/flyball/examples/internal/adspb"
)

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokWord
	tokNumber
	tokString
	tokSymbol
)

type token struct {
	kind tokenKind
	text string // of a string: without quotes and escapes
	pos  int
}

// is reports whether the token is the given keyword or symbol.
func (t token) is(s string) bool {
	return t.kind == tokWord && strings.EqualFold(t.text, s) || t.kind == tokSymbol && t.text == s
}

// lexer cuts a query into tokens, one at a time.
type lexer struct {
	src string
	pos int
}

func fail(code adspb.QueryErrorEnum_QueryError, pos int, format string, args ...any) *Error {
	return &Error{Code: code, Pos: pos, Message: fmt.Sprintf(format, args...)}
}

func (l *lexer) next() (token, *Error) {
	for l.pos < len(l.src) && strings.IndexByte(" \t\r\n\f\v", l.src[l.pos]) >= 0 {
		l.pos++
	}
	start := l.pos
	if start == len(l.src) {
		return token{pos: start}, nil
	}
	switch c := l.src[start]; {
	case isLetter(c):
		for l.pos < len(l.src) && (isLetter(l.src[l.pos]) || isDigit(l.src[l.pos]) || l.src[l.pos] == '.') {
			l.pos++
		}
		return token{tokWord, l.src[start:l.pos], start}, nil
	case isDigit(c) || c == '-' || c == '+' || c == '.':
		return l.number()
	case c == '\'' || c == '"':
		return l.str(c)
	case strings.IndexByte("=,()", c) >= 0:
		l.pos++
	case strings.IndexByte("<>!", c) >= 0:
		l.pos++
		if l.pos < len(l.src) && l.src[l.pos] == '=' {
			l.pos++
		} else if c == '!' {
			return token{}, fail(adspb.QueryErrorEnum_BAD_OPERATOR, start, "'!' is no operator")
		}
	default:
		return token{}, fail(adspb.QueryErrorEnum_BAD_SYMBOL, start, "unexpected symbol %q", l.src[start:start+1])
	}
	return token{tokSymbol, l.src[start:l.pos], start}, nil
}

// number reads an optional sign, digits and at most one point.
func (l *lexer) number() (token, *Error) {
	start, digits, points := l.pos, 0, 0
	for ; l.pos < len(l.src); l.pos++ {
		c := l.src[l.pos]
		switch {
		case isDigit(c):
			digits++
		case c == '.':
			points++
		case (c == '-' || c == '+') && l.pos == start:
		case isLetter(c):
			return token{}, fail(adspb.QueryErrorEnum_BAD_NUMBER, start, "letters in number %q", l.src[start:l.pos+1])
		default:
			goto end
		}
	}
end:
	if digits == 0 || points > 1 {
		return token{}, fail(adspb.QueryErrorEnum_BAD_NUMBER, start, "bad number %q", l.src[start:l.pos])
	}
	return token{tokNumber, l.src[start:l.pos], start}, nil
}

// str reads a string to its closing quote; a backslash makes the next character
// plain, which must be one that needs it.
func (l *lexer) str(quote byte) (token, *Error) {
	start := l.pos
	var b strings.Builder
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; c {
		case quote:
			l.pos++
			return token{tokString, b.String(), start}, nil
		case '\n':
			return token{}, fail(adspb.QueryErrorEnum_PROHIBITED_NEWLINE_IN_STRING, start, "newline in a string")
		case '\\':
			l.pos++
			if l.pos == len(l.src) {
				return token{}, fail(adspb.QueryErrorEnum_STRING_NOT_TERMINATED, start, "string is not terminated")
			}
			if strings.IndexByte(`\'"`, l.src[l.pos]) < 0 {
				return token{}, fail(adspb.QueryErrorEnum_BAD_ESCAPE_SEQUENCE, l.pos-1, "bad escape sequence %q", l.src[l.pos-1:l.pos+1])
			}
			b.WriteByte(l.src[l.pos])
		default:
			b.WriteByte(c)
		}
	}
	return token{}, fail(adspb.QueryErrorEnum_STRING_NOT_TERMINATED, start, "string is not terminated")
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

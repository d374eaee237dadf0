package vendors

import (
	"net/http"
	"strings"
	"time"
)

// member is one member of a structured field (RFC 8941), a list or a dictionary:
// "name";r=50;t=30 or limit=100 or 100;w=60.
type member struct {
	key    string // of a dictionary; "" in a list
	value  string // the bare item as text, without the quotes of a string
	params []param
}

type param struct {
	key, value string
	quoted     bool // a string or a byte sequence, which is no number
}

// name is the member's item in a list: the name of a policy.
func (m member) name() string { return m.value }

// param returns the last value of a parameter, as the RFC has it; "" when it is
// missing.
func (m member) param(key string) string {
	for i := len(m.params) - 1; i >= 0; i-- {
		if m.params[i].key == key {
			return m.params[i].value
		}
	}
	return ""
}

func (m member) has(key string) bool { return m.param(key) != "" }

// integer reads a parameter that is to be an Integer, not negative.
func (m member) integer(key string) (int64, bool) {
	for i := len(m.params) - 1; i >= 0; i-- {
		if p := m.params[i]; p.key == key {
			n, ok := parseCount(p.value)
			return n, ok && !p.quoted
		}
	}
	return 0, false
}

func (m member) seconds(key string) (time.Duration, bool) {
	return parseDecimal(m.param(key), time.Second)
}

// list returns the members of all values of a header, at most 16. Values that
// are malformed are left out whole.
func list(h http.Header, name string) (out []member) {
	for _, v := range values(h, name) {
		if members, ok := parseList(v); ok {
			out = append(out, members...)
		}
	}
	return out[:min(len(out), maxValues)]
}

// parseList reads one value of a structured field that is a list or a
// dictionary, of at most maxValue bytes; inner lists, which no rate limit field
// has, count as malformed.
func parseList(s string) (out []member, ok bool) {
	p := parser{strings.Trim(s, " \t")}
	for p.rest != "" {
		var m member
		if m, ok = p.member(); !ok {
			return nil, false
		}
		out = append(out, m)
		p.space()
		if p.rest == "" {
			return out, true
		}
		if !p.skip(',') {
			return nil, false
		}
		p.space()
	}
	return nil, false // empty, or a comma at the end
}

// parser consumes rest from the left.
type parser struct{ rest string }

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t") }

func (p *parser) skip(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *parser) member() (m member, ok bool) {
	quoted := strings.HasPrefix(p.rest, `"`)
	if m.value, ok = p.item(); !ok {
		return m, false
	}
	if !quoted && p.skip('=') {
		m.key = strings.ToLower(m.value)
		if m.value, ok = p.item(); !ok {
			return m, false
		}
	}
	for {
		p.space()
		if !p.skip(';') {
			return m, true
		}
		p.space()
		a := param{value: "?1"} // a parameter without a value is true
		if a.key = p.bare(); a.key == "" {
			return m, false
		}
		a.key = strings.ToLower(a.key)
		if p.skip('=') {
			a.quoted = strings.HasPrefix(p.rest, `"`) || strings.HasPrefix(p.rest, ":")
			if a.value, ok = p.item(); !ok {
				return m, false
			}
		}
		m.params = append(m.params, a)
	}
}

// item consumes a bare item: a string, a byte sequence, or a number, token,
// boolean or date, which are not told apart.
func (p *parser) item() (string, bool) {
	switch {
	case p.skip('"'):
		return p.quoted()
	case p.skip(':'):
		b, rest, ok := strings.Cut(p.rest, ":")
		p.rest = rest
		return b, ok
	default:
		s := p.bare()
		return s, s != ""
	}
}

func (p *parser) bare() string {
	n := strings.IndexAny(p.rest, "=;,\" \t()")
	if n < 0 {
		n = len(p.rest)
	}
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

// quoted consumes a string after its first quote.
func (p *parser) quoted() (string, bool) {
	var b strings.Builder
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return b.String(), true
		case c == '\\':
			if i++; i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return "", false
			}
			b.WriteByte(p.rest[i])
		case c < ' ' || c > '~':
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

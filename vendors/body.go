package vendors

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"
)

// maxItems bounds how many elements of one JSON array are looked at.
const maxItems = 100

// decode reads a JSON object or array of at most maxBody bytes into v, and
// reports whether it is JSON at all. A field of another type than in v is left
// out, and the rest is read.
func decode(body []byte, v any) bool {
	if len(body) > maxBody {
		return false
	}
	if body = trim(body); len(body) == 0 || body[0] != '{' && body[0] != '[' {
		return false
	}
	err := json.Unmarshal(body, v)
	_, mistyped := errors.AsType[*json.UnmarshalTypeError](err)
	return err == nil || mistyped
}

// trim returns a body without the byte order mark and the white space around it.
func trim(body []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
}

// has reports whether a body, of at most maxBody bytes, has a text in it: whether
// a good answer is worth decoding.
func has(body []byte, text string) bool {
	return len(body) <= maxBody && bytes.Contains(body, []byte(text))
}

// text is a JSON string, number or boolean, as text. Anything else is "".
type text string

// UnmarshalJSON never fails.
func (t *text) UnmarshalJSON(b []byte) error {
	*t = ""
	switch b[0] {
	case '"':
		var s string
		if json.Unmarshal(b, &s) == nil {
			*t = text(s)
		}
	case '{', '[', 'n':
	default:
		*t = text(b)
	}
	return nil
}

// seconds reads t as a number of seconds that is not negative.
func (t text) seconds() (time.Duration, bool) {
	if len(t) > maxValue {
		return 0, false
	}
	if d, ok := parseDecimal(string(t), time.Second); ok {
		return d, true
	}
	f, ok := t.float()
	return floatDelay(f), ok && f >= 0
}

// float reads t as a finite number.
func (t text) float() (float64, bool) {
	if len(t) > maxValue {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(t), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// count reads t as a number of things, rounded down; -1 when it is none.
func (t text) count() int64 {
	if n, ok := parseAmount(string(t)); ok && len(t) <= maxValue {
		return n
	}
	return -1
}

// items is a JSON array, of which the first maxItems are read, or one element
// alone. Elements of another type have what could be read of them.
type items[T any] []T

// UnmarshalJSON never fails.
func (l *items[T]) UnmarshalJSON(b []byte) error {
	if *l = nil; b[0] == 'n' {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if b[0] == '[' {
		_, _ = dec.Token() // b is valid
	}
	for dec.More() && len(*l) < maxItems {
		var v T
		if err := dec.Decode(&v); err != nil {
			if _, mistyped := errors.AsType[*json.UnmarshalTypeError](err); !mistyped {
				break
			}
		}
		*l = append(*l, v)
	}
	return nil
}

// answers reads the elements of the array that a body in JSON is, or that a field of
// its object is: those of a batch, of which only the beginning may be there. whole says
// that these are all, up to maxItems.
func answers[T any](body []byte, field string) (all []T, whole bool) {
	if len(body) > maxBody {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(trim(body)))
	if field != "" && !seek(dec, field) {
		return nil, false
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil, false
	}
	for dec.More() && len(all) < maxItems {
		var v T
		if err := dec.Decode(&v); err != nil {
			if _, mistyped := errors.AsType[*json.UnmarshalTypeError](err); !mistyped {
				return all, false
			}
		}
		all = append(all, v)
	}
	t, err := dec.Token()
	return all, err == nil && t == json.Delim(']')
}

// seek brings dec to the value of a field of an object.
func seek(dec *json.Decoder, field string) bool {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for dec.More() {
		if t, err := dec.Token(); err != nil || t == field {
			return err == nil
		}
		var other json.RawMessage
		if dec.Decode(&other) != nil {
			return false
		}
	}
	return false
}

// elements yields the elements of an XML document of at most maxBody bytes, in
// order: the name without its prefix, and the text up to the next tag, cut to 256
// bytes. It reads as much of it as there is, well-formed or not.
func elements(b []byte) func(yield func(name, text []byte) bool) {
	return func(yield func(name, text []byte) bool) {
		if len(b) > maxBody {
			return
		}
		for {
			_, rest, ok := bytes.Cut(b, []byte("<"))
			end := bytes.IndexByte(rest, '>')
			if !ok || end < 0 {
				return
			}
			name := rest[:end]
			b = rest[end+1:]
			if i := bytes.IndexAny(name, " \t\r\n/"); i >= 0 {
				name = name[:i]
			}
			if len(name) == 0 || name[0] == '!' || name[0] == '?' { // "/" is cut, too
				continue
			}
			if _, local, ok := bytes.Cut(name, []byte(":")); ok {
				name = local
			}
			content, isCDATA := bytes.CutPrefix(b[:min(len(b), maxValue)], []byte("<![CDATA["))
			until := "<"
			if isCDATA {
				until = "]]>"
			}
			content, _, _ = bytes.Cut(content, []byte(until))
			if !yield(name, bytes.TrimSpace(content)) {
				return
			}
		}
	}
}

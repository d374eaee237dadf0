package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// member is one of an object's.
type member struct {
	name  string
	value json.RawMessage // as it was written
}

// limits of a JSON text: more is refused before anything is made of it.
type limits struct{ bytes, depth int }

var (
	configLimits = limits{64 << 10, 16}
	metaLimits   = limits{8 << 10, 8}
	packetLimits = limits{16 << 10, 10}
)

// check reports whether data is one JSON value within the limits, in UTF-8, of whose
// objects none has a member twice.
func (l limits) check(data []byte) error {
	if len(data) > l.bytes {
		return invalidf("%d bytes of JSON, want up to %d", len(data), l.bytes)
	}
	if !utf8.Valid(data) {
		return invalidf("JSON that is not UTF-8")
	}
	if !json.Valid(data) {
		var v any
		return invalidf("JSON: %v", json.Unmarshal(data, &v))
	}
	// Of what is valid every token is found; the error of the last is the end.
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var open []map[string]bool // of each object its names so far; of an array nil
	isName := false            // of an object a name is next
	for {
		tok, err := dec.Token()
		if err != nil {
			return nil
		}
		switch t := tok.(type) {
		case json.Delim:
			switch t {
			case '{', '[':
				var names map[string]bool
				if t == '{' {
					names = make(map[string]bool)
				}
				if open = append(open, names); len(open) > l.depth {
					return invalidf("JSON of more than %d levels", l.depth)
				}
			default:
				open = open[:len(open)-1]
			}
		case string:
			if isName {
				names := open[len(open)-1]
				if names[t] {
					return invalidf("JSON with %.64q twice", t)
				}
				names[t] = true
				isName = false
				continue
			}
		}
		isName = len(open) > 0 && open[len(open)-1] != nil
	}
}

// members returns those of the object that checked data is, in their order, or false.
func members(data []byte) (all []member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var m member
		m.name, _ = name.(string)
		if dec.Decode(&m.value) != nil {
			return nil, false
		}
		all = append(all, m)
	}
	return all, true
}

// elements returns those of the array that checked data is, or false.
func elements(data []byte) (all []json.RawMessage, ok bool) {
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("[")) && json.Unmarshal(data, &all) == nil {
		return all, true
	}
	return nil, false
}

func isNull(data []byte) bool { return string(bytes.TrimSpace(data)) == "null" }

// shown is data for an error: in one line, and not for ever.
func shown(data []byte) string {
	var line bytes.Buffer
	if json.Compact(&line, data) != nil {
		line.Write(data)
	}
	if line.Len() > 64 {
		return fmt.Sprintf("%s...", strings.ToValidUTF8(string(line.Bytes()[:61]), ""))
	}
	return line.String()
}

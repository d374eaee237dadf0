package telemetry

import (
	"strings"
	"unicode/utf8"
)

// How long texts from elsewhere may be, in bytes: names are stored with each value,
// and an error may have a page of HTML in it.
const (
	maxName  = 256
	maxError = 1024
)

// text is s, of at most so many bytes, as exporters take it: with a tenant's name
// that is not UTF-8 they refuse all that is exported at once.
func text(s string, most int) string {
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

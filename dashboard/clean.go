package dashboard

import (
	"reflect"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

const (
	longest = 200  // characters of a text on the page
	readTo  = 1024 // bytes of it that are looked at
)

// texts makes texts of others fit to be shown: short, of visible characters, and
// without what looks like a credential. It is no proof against a vendor who wants to
// show one. The zero value is ready.
type texts struct {
	mu    sync.Mutex
	known map[string]string // most texts are shown again every second
}

func (t *texts) clean(s string) string {
	if s == "" {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(s) <= readTo {
		if c, ok := t.known[s]; ok {
			return c
		}
	}
	c := cleaned(s)
	if t.known == nil || len(t.known) >= 4096 {
		t.known = make(map[string]string)
	}
	if len(s) <= readTo {
		t.known[strings.Clone(s)] = c
	}
	return c
}

func cleaned(s string) string {
	if len(s) > readTo {
		s = s[:readTo]
		if i := strings.LastIndexAny(s, " \t\n"); i > 0 {
			s = s[:i] // of a key that was cut off the rest may not look like one
		}
	}
	s = strings.ToValidUTF8(s, "")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // line ends, and what turns the direction of writing
			return ' '
		}
		return r
	}, s)
	for _, x := range secrets {
		s = x.form.ReplaceAllString(s, x.by)
	}
	s = random.ReplaceAllStringFunc(s, withoutKey)
	s = strings.TrimSpace(s)
	n := 0
	for i := range s {
		if n++; n > longest {
			return s[:i] + "…"
		}
	}
	return s
}

// secrets are the forms in which credentials appear in texts of errors. A limit in
// "tokens" is not one.
var secrets = []struct {
	form *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`-----BEGIN [^-]*PRIVATE KEY-----.*`), "…"},
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)\b["']?\s*[:=].*`), "$1: …"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}`), "$1 …"},
	{regexp.MustCompile(`(://)[^\s/?#]*@`), "$1…@"},                                    // user and password of a URL
	{regexp.MustCompile(`((?:://|(?:^|[\s"'(])/)[^\s?#"'<>]*)[?#][^\s"'<>]*`), "$1?…"}, // its query
	{regexp.MustCompile(`[^\s/:@"'(]+:[^\s"'/][^\s"']*@(\w*\(|[\w.-]+:\d|/)`), "…@$1"}, // of a database's name
	{regexp.MustCompile(`(?i)\b(` + secretName + `)(["']?\s*[:=]\s*)` + value), "$1$2…"},
	{regexp.MustCompile(`(?i)\b(` + secretName + `)(\s+(?:is\s+)?)("[^"]*"?|'[^']*'?)`), "$1$2…"}, // password "x"
	{regexp.MustCompile(`(?i)\b(key)(["']\s*:\s*|=)` + value), "$1$2…"},                           // "key": is no word of a sentence, as key: may be
	{regexp.MustCompile(`\b(?:sk|pk|rk|whsec|gh[a-z]|github_pat|glpat|xox[a-z]|ya29|AIza|hf|shp[a-z]{2})[-_.]?[\w-]*[\w.-]{16,}`), "…"},
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{12,}`), "…"},
	{regexp.MustCompile(`\beyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?`), "…"},
}

const (
	secretName = `[\w-]*(?:token|secret|passwd|password|pwd|passphrase|api[-_ ]?key|access[-_]?key|private[-_]?key|auth[-_]?key|credentials?|signature)|pass|auth|sig|sid|session[-_]?id`
	value      = `("[^"]*"?|'[^']*'?|\{[^}]*\}?|\[[^\]]*\]?|[^\s"',;&]+)`
)

// random is what most keys look like: long, of letters and digits, without a hyphen as
// names have it.
var random = regexp.MustCompile(`[0-9A-Za-z_]{24,}`)

// withoutKey is s if it is only letters, or only digits, else what stands for a key.
func withoutKey(s string) string {
	if strings.ContainsAny(s, "0123456789") && strings.IndexFunc(s, unicode.IsLetter) >= 0 {
		return "…"
	}
	return s
}

// cleanAll cleans every text in what v points to, and cuts every list to most: of what
// another process sent.
func (t *texts) cleanAll(v any, most int) { t.walk(reflect.ValueOf(v).Elem(), most) }

func (t *texts) walk(v reflect.Value, most int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(t.clean(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			t.walk(v.Elem(), most)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				t.walk(v.Field(i), most)
			}
		}
	case reflect.Slice:
		if v.Len() > most {
			v.SetLen(most)
		}
		for i := range v.Len() {
			t.walk(v.Index(i), most)
		}
	}
}

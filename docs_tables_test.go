package flyball_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// systems are the sections of docs/features.md, and how many mechanisms, states,
// options, defaults and events each system has, which have a row there.
var systems = map[string]int{
	"Resilience4j": 99, "Polly": 75, "failsafe-go": 55, "Bottleneck": 42, "Hystrix": 51,
	"Sentinel": 24, "Ktor": 29, "Arrow": 37, "Kresil": 51, "Confined": 33,
}

func TestFeatures(t *testing.T) {
	found, wrong := wrongFeatures(parseNames(t), read(t, "docs/features.md"))
	complain(t, "docs/features.md", wrong)
	if !maps.Equal(found, systems) {
		t.Errorf("docs/features.md has so many rows: %v, want %v", found, systems)
	}
}

var featureColumns = []string{"There", "Default", "Here", "Default", "Remarks"}

// wrongFeatures counts the rows of each section of a features page and says what is
// wrong with them. A row has an answer: names of ours in Here, or "none" there, and
// why in Remarks. The Default beside it is in the doc comment of
// one of the names.
func wrongFeatures(names names, text string) (rows map[string]int, wrong []string) {
	rows = map[string]int{}
	seen := map[string]bool{}
	section, header := "", false
	for n, l := range strings.Split(text, "\n") {
		if title, ok := strings.CutPrefix(l, "## "); ok {
			section, header = title, false
		}
		cells := cells(l)
		if len(cells) == 0 {
			header = false
			continue
		}
		report := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("line %d, %q: ", n+1, cells[0])+fmt.Sprintf(format, args...))
		}
		switch {
		case !header:
			if header = true; !slices.Equal(cells, featureColumns) {
				report("the columns are %q, want %q", cells, featureColumns)
			}
			continue
		case strings.HasPrefix(cells[0], "--"):
			continue
		case len(cells) != len(featureColumns):
			report("%d columns, want %d", len(cells), len(featureColumns))
			continue
		}
		rows[section]++
		if key := section + ": " + cells[0]; cells[0] == "" || seen[key] {
			report("the row is there twice, or has no title")
		} else {
			seen[key] = true
		}
		for _, complaint := range wrongAnswer(names, cells[2], cells[3], cells[4]) {
			report("%s", complaint)
		}
	}
	return rows, wrong
}

func wrongAnswer(names names, here, standard, remarks string) (wrong []string) {
	if here == "none" {
		if len(remarks) < 10 || standard != "" {
			return []string{here + ", and no reason"}
		}
		return nil
	}
	var docs []string
	for _, m := range inline.FindAllStringSubmatch(here, -1) {
		if n := ourName.FindStringSubmatch(m[1]); n == nil {
			wrong = append(wrong, m[1]+" is not of the form package.Name")
		} else if found := names.find(n[1] + "." + n[2]); found == nil {
			wrong = append(wrong, "no such name: "+n[1]+"."+n[2])
		} else {
			docs = append(docs, found.doc)
		}
	}
	switch {
	case len(docs) == 0 && len(wrong) == 0:
		wrong = append(wrong, "no answer")
	case len(docs) > 0 && !slices.ContainsFunc(docs, func(doc string) bool { return says(doc, standard) }):
		wrong = append(wrong, fmt.Sprintf("no default of %q in the doc comment", standard))
	}
	return wrong
}

// fieldsTable is a table of all fields of a struct, with their defaults.
var fieldsTable = regexp.MustCompile(`<!-- fields: (\S+) -->\n((?:\|.*\n)+)`)

// wrongFields says what is wrong with the tables of fields: the fields of the type
// are the first column, and what is in the second, unless it is empty, is in their
// doc comments.
func wrongFields(names names, text string) (wrong []string) {
	for _, m := range fieldsTable.FindAllStringSubmatch(text, -1) {
		of := names.find(m[1])
		if of == nil || len(of.fields) == 0 {
			wrong = append(wrong, "no such struct: "+m[1])
			continue
		}
		var have []string
		for _, l := range strings.Split(m[2], "\n")[2:] {
			cells := cells(l)
			if len(cells) < 3 {
				continue
			}
			field := strings.Trim(cells[0], "`")
			have = append(have, field)
			if f := of.members[field]; f == nil {
				wrong = append(wrong, m[1]+" has no field "+field)
			} else if !says(f.doc, cells[1]) {
				wrong = append(wrong, fmt.Sprintf("no default of %q in the doc comment of %s.%s", cells[1], m[1], field))
			}
		}
		for _, f := range of.fields {
			if !slices.Contains(have, f) {
				wrong = append(wrong, "the table of "+m[1]+" lacks "+f)
			}
		}
	}
	return wrong
}

// says reports whether a doc comment has a default, as words of their own.
func says(doc, standard string) bool {
	return standard == "" || regexp.MustCompile(`(?:^|[ (])`+regexp.QuoteMeta(standard)+`(?:$|[ .,;:)])`).MatchString(doc)
}

// cells are those of a row of a table.
func cells(l string) (cells []string) {
	if !strings.HasPrefix(l, "|") {
		return nil
	}
	for _, c := range strings.Split(strings.Trim(l, "|"), "|") {
		cells = append(cells, strings.TrimSpace(c))
	}
	return cells
}

func TestMistakesInPagesAreSeen(t *testing.T) {
	names := names{"p": {
		"Config": {fields: []string{"Max", "Wait"}, members: map[string]*name{"Max": {doc: "Max is so many. 0 means 25."}, "Wait": {}}},
		"Outer":  {members: map[string]*name{}, embeds: []string{"Config"}},
		"New":    {doc: "New returns one."},
	}}
	const head = "## S\n\n| There | Default | Here | Default | Remarks |\n|---|---|---|---|---|\n"
	const table = "<!-- fields: p.Config -->\n| Field | Default | |\n|---|---|---|\n"
	features := func(text string) []string { _, wrong := wrongFeatures(names, head+text); return wrong }
	fields := func(text string) []string { return wrongFields(names, text) }
	unknown := func(text string) []string { return unknownNames(names, text) }
	links := func(text string) []string { return brokenLinks(t, "docs/README.md", text) }
	for text, check := range map[string]func(string) []string{
		"| max | 10 | `p.Config.Max` | 25 | |\n| new | | `p.New()`, `p.Outer.Max` | | |\n| gone | | none | | it is of no use |": features,
		table + "| `Max` | 25 | |\n| `Wait` | | |\n":                                fields,
		"`p.Config{}` and `other.Name`, \n```\np.Gone `p.Gone`\n```\n and `p.gone`": unknown,
		"[a](../README.md#status) [b](https://example.com/x) [c](retry.md)":         links,
	} {
		if wrong := check(text); len(wrong) != 0 {
			t.Errorf("%q of\n%s", wrong, text)
		}
	}
	for text, check := range map[string]func(string) []string{
		"| max | | `p.Config.Gone` | | |":                            features, // no such field
		"| max | | `p.Gone` | | |":                                   features, // no such name
		"| max | | `Config` | | |":                                   features, // of which package
		"| max | | none | | |":                                       features, // no reason
		"| max | | | | nothing like it |":                            features, // no answer
		"| max | | `p.Config.Max` | 2 | |":                           features, // it is 25
		"| max | | `p.Config.Max` | |":                               features, // a column less
		"| m | | `p.New` | | |\n| m | | `p.New` | | |":               features, // twice
		table + "| `Max` | 25 | |\n":                                 fields,   // lacks Wait
		table + "| `Max` | 5 | |\n| `Wait` | | |\n":                  fields,   // it is 25
		table + "| `Max` | 25 | |\n| `Wait` | | |\n| `Gone` | | |\n": fields,
		"<!-- fields: p.Gone -->\n| a | b | c |\n":                   fields,
		"`p.Gone`":               unknown,
		"`p.Config.Gone{}`":      unknown,
		"[a](gone.md)":           links,
		"[a](../README.md#gone)": links,
		"[a](#gone)":             links,
	} {
		if wrong := check(text); len(wrong) != 1 {
			t.Errorf("%q, want one complaint, of\n%s", wrong, text)
		}
	}
}

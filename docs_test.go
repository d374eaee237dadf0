package flyball_test

import (
	"flag"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages of docs/ say nothing that the code does not: a name that they give is
// one, a default is in the doc comment of its field, a table of fields has them
// all, and a block of Go is the body of an Example, which go test runs.

// update writes the bodies of the examples into the pages:
//
//	go test . -run TestPages -update
var update = flag.Bool("update", false, "write the examples into the pages of docs/")

// mechanisms are what has a page, docs/<name>.md, with an example.
var mechanisms = []string{
	"adaptive", "backoff", "breaker", "budget", "bulkhead", "cache", "chaos", "collapse",
	"composition", "dashboard", "fallback", "governor", "grpcx", "hedge", "httpx", "limiter", "mysqlstore", "pool",
	"redisstore", "registry", "retry", "saga", "store", "telemetry", "timeout", "vendors",
}

func TestEveryMechanismHasAPageWithAnExample(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, name := range mechanisms {
		if page := read(t, "docs/"+name+".md"); !strings.Contains(page, "\n```go\n") {
			t.Errorf("docs/%s.md has no example", name)
		}
		if !strings.Contains(index, "]("+name+".md)") {
			t.Errorf("docs/README.md has no link to %s.md", name)
		}
	}
}

func TestPages(t *testing.T) {
	names := parseNames(t)
	for _, file := range pages(t) {
		text := read(t, file)
		if strings.HasPrefix(file, "docs/") {
			var wrong []string
			text, wrong = withExamples(t, file, text)
			complain(t, file, wrong)
			complain(t, file, wrongFields(names, text))
		}
		complain(t, file, unknownNames(names, text))
		complain(t, file, brokenLinks(t, file, text))
	}
}

// A program of README.md is whole: it compiles as it stands there, and is formatted.
func TestProgramsOfREADMECompile(t *testing.T) {
	watchSources(t)
	found := program.FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(found) == 0 {
		t.Fatal("README.md has no program")
	}
	for _, m := range found {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(m[1]), 0o644); err != nil {
			t.Fatal(err)
		}
		goCommand(t, "vet", file)
		if tidy, err := format.Source([]byte(m[1])); err != nil || string(tidy) != m[1] {
			t.Errorf("gofmt would change, %v:\n%s", err, m[1])
		}
	}
}

func complain(t *testing.T, file string, complaints []string) {
	t.Helper()
	for _, c := range complaints {
		t.Errorf("%s: %s", file, c)
	}
}

// pages are the files that are read by people who choose and use a mechanism.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := fs.Glob(os.DirFS("."), "docs/*.md")
	if err != nil || len(found) == 0 {
		t.Fatal("no pages in docs", err)
	}
	return append(found, "README.md")
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A block of Go, and before it the Example that it is.
var (
	goBlock   = regexp.MustCompile("(?s)(?:<!-- example: (\\S+) -->\n)?```go\n(.*?)```\n")
	program   = regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n")
	inline    = regexp.MustCompile("`([^`\n]+)`")
	fenced    = regexp.MustCompile("(?s)```.*?```\n")
	ourName   = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*(?:\.[A-Z]\w*)*)(?:\(\)|\[\.\.\.\]|\{\})?$`)
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notAnchor = regexp.MustCompile(`[^\w\- ]`)
)

// withExamples compares the blocks of Go with the examples that they name; with
// -update it replaces them.
func withExamples(t *testing.T, file, text string) (_ string, wrong []string) {
	updated := goBlock.ReplaceAllStringFunc(text, func(block string) string {
		m := goBlock.FindStringSubmatch(block)
		if m[1] == "" {
			wrong = append(wrong, fmt.Sprintf("a block of Go without an example: %.60q", m[2]))
			return block
		}
		body, err := exampleBody(t, m[1])
		if err != nil {
			wrong = append(wrong, err.Error())
			return block
		}
		if body != m[2] && !*update {
			wrong = append(wrong, m[1]+" differs; run go test . -run TestPages -update")
		}
		return "<!-- example: " + m[1] + " -->\n```go\n" + body + "```\n"
	})
	if *update && updated != text {
		if err := os.WriteFile(file, []byte(updated), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return updated, wrong
}

// unknownNames are the names in code that begin with a package of ours and are none
// of its.
func unknownNames(names names, text string) (unknown []string) {
	for _, m := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		if n := ourName.FindStringSubmatch(m[1]); n != nil && names[n[1]] != nil && names.find(n[1]+"."+n[2]) == nil {
			unknown = append(unknown, "no such name: "+n[1]+"."+n[2])
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// brokenLinks are the links to files, or headings in them, that are not there.
func brokenLinks(t *testing.T, file, text string) (broken []string) {
	for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		to, anchor, anchored := strings.Cut(m[1], "#")
		target := file
		if to != "" {
			target = path.Join(path.Dir(file), to)
		}
		if _, err := os.Stat(filepath.FromSlash(target)); err != nil {
			broken = append(broken, "broken link: "+m[1])
		} else if anchored && !slices.Contains(anchors(read(t, target)), anchor) {
			broken = append(broken, "no such heading: "+m[1])
		}
	}
	return broken
}

// anchors are those that GitHub makes of headings.
func anchors(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

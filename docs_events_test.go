package flyball_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flyball-go/flyball/event"
)

// The table of docs/events.md is what the source says of each kind, in its order, and
// which of them a governor keeps.
func TestEventsPageHasEveryKindAsItIs(t *testing.T) {
	var want, got [][]string
	kept := keptKinds(t)
	for i, k := range kindsOf(t) {
		keeps := ""
		if slices.Contains(kept, k[0]) {
			keeps = "yes"
		}
		want = append(want, []string{"`event." + k[0] + "`", event.Kind(i + 1).String(), k[1], keeps})
	}
	_, after, _ := strings.Cut(read(t, "docs/events.md"), "\n| Kind |")
	for _, l := range strings.Split(after, "\n")[2:] {
		if !strings.HasPrefix(l, "|") {
			break
		}
		row := strings.Split(strings.TrimSuffix(strings.TrimPrefix(l, "|"), "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		got = append(got, row)
	}
	for i := range max(len(want), len(got)) {
		var w, g []string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if !slices.Equal(w, g) {
			t.Errorf("row %d is\n  %q, want\n  %q", i+1, g, w)
		}
	}
	if n := len(want); n == 0 || event.Kind(n).String() == "invalid" || event.Kind(n+1).String() != "invalid" {
		t.Errorf("the source has %d kinds, and not as many as the package", n)
	}
}

// kindsOf are the names of the kinds in event.go, and what their comments say.
func kindsOf(t *testing.T) (all [][2]string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "event/event.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if name := v.Names[0].Name; name != "None" && ast.IsExported(name) {
				if v.Comment == nil {
					t.Fatalf("event.%s is not explained", name)
				}
				all = append(all, [2]string{name, strings.TrimSpace(v.Comment.Text())})
			}
		}
	}
	return all
}

// What the page of a governor tells is kept from before the page was opened.
func TestWhatTheDashboardTellsOfIsKept(t *testing.T) {
	kept := keptKinds(t)
	for _, k := range kindsIn(t, "dashboard/entry.go", "heard") {
		if !slices.Contains(kept, k) {
			t.Errorf("governor.Handle.Recent has no event.%s, which the dashboard tells of", k)
		}
	}
}

// keptKinds are those that governor.Handle.Recent returns.
func keptKinds(t *testing.T) []string { t.Helper(); return kindsIn(t, "governor/handle.go", "kept") }

// kindsIn are those of a list in a file.
func kindsIn(t *testing.T, file, name string) (all []string) {
	t.Helper()
	list := regexp.MustCompile(`(?s)var ` + name + ` = \[\]event\.Kind\{(.*?)\n\}`).FindStringSubmatch(read(t, file))
	if list == nil {
		t.Fatalf("%s has no list %s", file, name)
	}
	for _, m := range regexp.MustCompile(`event\.(\w+)`).FindAllStringSubmatch(list[1], -1) {
		all = append(all, m[1])
	}
	return all
}

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mistakes returns what is wrong with the table in a README: its rows are to be the
// catalogue's, in its order and with its targets, and the verdicts what the targets say
// to ratio and allocations.
func mistakes(readme string, rows []row) (wrong []string) {
	_, text, found := strings.Cut(readme, "<summary>Every row of <code>make bench</code></summary>")
	text, _, ended := strings.Cut(text, "</details>")
	if !found || !ended {
		return []string{"there is no table"}
	}
	if !regexp.MustCompile(`(?m)^20\d\d-\d\d-\d\d, \d+ x .+, go1\.`).MatchString(text) {
		wrong = append(wrong, "nothing says when and where it was measured")
	}
	at := map[string]int{}
	for i, r := range rows {
		at[r.id] = i
	}
	there := map[string]bool{}
	last := -1
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.TrimSpace(cells[0]) == "row" {
			continue
		}
		id := strings.TrimSpace(cells[0])
		i, known := at[id]
		switch {
		case !known:
			wrong = append(wrong, id+" is no row")
			continue
		case i <= last:
			wrong = append(wrong, id+" is out of order, or there twice")
		case len(cells) != 8:
			wrong = append(wrong, id+" has not 8 cells")
		case cells[5] != rows[i].targetText():
			wrong = append(wrong, id+" has the target "+cells[5]+", want "+rows[i].targetText())
		case !slices.Contains([]string{"ok", "short", "-"}, cells[6]) || (cells[6] == "-") != (len(rows[i].target) == 0):
			wrong = append(wrong, id+" has the verdict "+cells[6])
		}
		last = i
		there[id] = true
	}
	for _, r := range rows {
		if !there[r.id] {
			wrong = append(wrong, r.id+" is missing")
		}
	}
	return wrong
}

func TestREADMEHasEveryRow(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range mistakes(string(readme), catalogue()) {
		t.Error(wrong)
	}
}

func TestMistakesInTheREADMEAreSeen(t *testing.T) {
	rows := []row{{id: "A1", target: []bound{{ratio, 0.1}}}, {id: "A2"}}
	const (
		begin = "<summary>Every row of <code>make bench</code></summary>\n\n2026-01-02, 2 x Some, linux/amd64, go1.26, -passes 6\n\n| row | ours |\n|---|---|\n"
		one   = "| A1 | 1 ns | 2 ns | 0.5x | 0 | <= 0.1x | short | a; b |\n"
		two   = "| A2 | 1 ns | 2 ns | 0.5x | 0 | - | - | a; b |\n"
		end   = "</details>"
	)
	for text, want := range map[string]string{
		begin + one + two + end:       "",
		"":                            "there is no table",
		begin + one + two:             "there is no table",
		begin + one + end:             "A2 is missing",
		begin + two + one + end:       "A1 is out of order, or there twice",
		begin + one + two + two + end: "A2 is out of order, or there twice",
		begin + one + two + strings.Replace(two, "A2", "A3", 1) + end:      "A3 is no row",
		begin + strings.Replace(one, "<= 0.1x", "-", 1) + two + end:        "A1 has the target -, want <= 0.1x",
		begin + strings.Replace(one, "short", "-", 1) + two + end:          "A1 has the verdict -",
		strings.Replace(begin, "2026-01-02, ", "", 1) + one + two + end:    "nothing says when and where it was measured",
		begin + strings.Replace(one, " | a; b", "", 1) + two + end:         "A1 has not 8 cells",
		begin + one + strings.Replace(two, "- | - |", "- | ok |", 1) + end: "A2 has the verdict ok",
	} {
		if got := strings.Join(mistakes(text, rows), "; "); got != want {
			t.Errorf("%q\n%s", text, got)
		}
	}
}

package main

import (
	"fmt"
	"slices"
	"strings"
)

// row is one line of the table. Rows are added by the init functions of the
// files that hold them, so that a new one is a new file and nothing else.
type row struct {
	id   string // a letter and a number, then what tells its family apart: "D1a", "B1/64"
	what string // in a few words
	peer string // what it is compared with
	unit string // of ours and peer: "ns", "B", "calls" or "seeds"

	// target is what it must reach, all of it; none: an orientation.
	target []bound

	// measure takes one sample per pass.
	measure func(passes int) ([]sample, error)
}

// sample is what one pass found: ours and the peer in the row's unit, and how
// many allocations ours made per operation.
type sample struct{ ours, peer, allocs float64 }

var rows []row

func add(r ...row) { rows = append(rows, r...) }

// catalogue returns every row in the order of their ids.
func catalogue() []row {
	all := slices.Clone(rows)
	slices.SortFunc(all, func(a, b row) int { return compare(a.id, b.id) })
	return all
}

// compare orders ids as people do: B1/8 before B1/64.
func compare(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 && na != nb {
			return na - nb // the longer number is the larger: ids have no leading zeros
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// digits is how many digits s begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// pick returns the rows of all that names name, in all's order. A name is an id
// or the beginning of one, but not within a number: D1 is D1a and not D10.
func pick(all []row, names []string) ([]row, error) {
	chosen := make([]bool, len(all))
	for _, name := range names {
		name = strings.TrimSpace(name)
		found := false
		for i, r := range all {
			rest, ok := strings.CutPrefix(r.id, name)
			if ok && name != "" && digits(rest) == 0 {
				chosen[i], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no row %q; there are %s", name, ids(all))
		}
	}
	var some []row
	for i, r := range all {
		if chosen[i] {
			some = append(some, r)
		}
	}
	return some, nil
}

func ids(all []row) string {
	var s []string
	for _, r := range all {
		s = append(s, r.id)
	}
	return strings.Join(s, ", ")
}

// bound is one condition of a target.
type bound struct {
	of   quantity
	most float64
}

type quantity uint8

const (
	ratio  quantity = iota // ours / peer
	amount                 // ours, in the row's unit
	allocs                 // allocations per operation
)

// targetText is r's target as tables have it.
func (r *row) targetText() string {
	if len(r.target) == 0 {
		return "-"
	}
	var texts []string
	for _, b := range r.target {
		texts = append(texts, b.text(r.unit))
	}
	return strings.Join(texts, ", ")
}

func (b bound) text(unit string) string {
	switch b.of {
	case ratio:
		return fmt.Sprintf("<= %gx", b.most)
	case allocs:
		return fmt.Sprintf("<= %g allocs", b.most)
	}
	return "<= " + quantityText(b.most, unit)
}

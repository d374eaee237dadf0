package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// S1: a row of an hourly report, streamed from the demonstration's server with a
// governor around the calls, and the same without. The stream needs what only
// the examples may import, so their own benchmark measures it, both ways in one
// run; a pass here is a run of it.
func init() {
	add(row{
		id: "S1", what: "a row of a governed stream", peer: "the stream alone", unit: "ns",
		target: []bound{{ratio, 1.053}}, // at least 0.95x the speed
		measure: func(passes int) (ss []sample, err error) {
			for range passes {
				s, err := hourly()
				if err != nil {
					return nil, err
				}
				ss = append(ss, s)
			}
			return ss, nil
		},
	})
}

var perSecond = regexp.MustCompile(`([0-9.e+]+) rows/s-(with|without)\b`)

func hourly() (s sample, err error) {
	out, err := exec.Command("go", "test", "github.com/flyball-go/flyball/examples/googleads", "-run", "^$", "-bench", "^BenchmarkHourly$", "-benchtime", "2x").CombinedOutput()
	if err != nil {
		return s, fmt.Errorf("the hourly benchmark: %w\n%s", err, out)
	}
	for _, m := range perSecond.FindAllStringSubmatch(string(out), -1) {
		rows, err := strconv.ParseFloat(m[1], 64)
		if err != nil || rows <= 0 {
			return s, fmt.Errorf("the hourly benchmark says %q", m[0])
		}
		if m[2] == "with" {
			s.ours = 1e9 / rows
		} else {
			s.peer = 1e9 / rows
		}
	}
	if s.ours == 0 || s.peer == 0 {
		return s, fmt.Errorf("the hourly benchmark does not say rows/s:\n%s", out)
	}
	return s, nil
}

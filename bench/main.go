// Command bench measures Flyball beside its peers, in the same run, and prints a
// row for each measurement: what ours costs, what the peer costs, the ratio of
// the two, and the target.
//
//	go run ./bench              every row
//	go run ./bench -rows D1,B1  some of them
//	go run ./bench -json        an array of objects
//	go run ./bench -markdown    a table in Markdown
//
// It exits with 1 when a row could not be measured and with 2 when it was called
// wrongly. A missed target is a result like any other: the row says "short".
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if id := os.Getenv(childEnv); id != "" {
		os.Exit(child(id, os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `usage: go run ./bench [-json | -markdown] [-rows A1,F2] [-passes 6]

  -json      print an array of objects instead of a table
  -markdown  print a table in Markdown, under the date and the machine
  -rows      measure only these rows; D1 means D1a, D1b, ...
  -passes    how often ours and the peer are measured in turn; the ratio is the
             median over the passes (rows in bytes take at most 3)
`

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // one line of ours instead
	asJSON := flags.Bool("json", false, "")
	asMarkdown := flags.Bool("markdown", false, "")
	picks := flags.String("rows", "", "")
	passes := flags.Int("passes", 6, "")

	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil && *asJSON && *asMarkdown {
		err = errors.New("-json and -markdown are two forms of one table")
	}
	if err == nil && (*passes < 1 || *passes > 1000) {
		err = fmt.Errorf("-passes is %d, want 1 to 1000", *passes)
	}
	chosen := catalogue()
	if err == nil && *picks != "" {
		chosen, err = pick(chosen, strings.Split(*picks, ","))
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 2
	}

	code := 0
	results := make([]result, 0, len(chosen))
	for i, r := range chosen {
		note(stderr, "\r%d of %d: %-8s", i+1, len(chosen), r.id)
		samples, err := r.measure(*passes)
		if err != nil {
			note(stderr, "\r")
			fmt.Fprintf(stderr, "bench: %s: %v\n", r.id, err)
			code = 1
			continue
		}
		results = append(results, judge(r, samples))
	}
	note(stderr, "\r%24s\r", "")

	write := writeTable
	switch {
	case *asJSON:
		write = writeJSON
	case *asMarkdown:
		write = writeMarkdown(thisMachine(*passes))
	}
	if err := write(stdout, results); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	return code
}

// note shows somebody who watches how far we are.
func note(w io.Writer, format string, args ...any) {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			fmt.Fprintf(w, format, args...)
		}
	}
}

// Command googleads fetches the reports of two thousand Google Ads accounts
// through one quota, three times: without a governor, with one that does not know
// the quota, and with one that does.
//
//	go run ./examples/googleads
//
// Without arguments it starts a server of its own, in its own process, that
// speaks Google's protocol. With -endpoint and credentials it does the same work
// against another server, or the real API. README.md tells more.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/flyball-go/flyball/examples/internal/adsreport"
	"github.com/flyball-go/flyball/examples/prometheus"
	"github.com/flyball-go/flyball/telemetry"
)

// memoryLimit is where the garbage collector begins to work harder. Rows are
// garbage as soon as they are added up: what is in use at once is far less.
const memoryLimit = 80 << 20

func main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for anything
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// The exit codes. A missing report or a total that differs is a failure.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// run is the program. The end of ctx makes it drain and print what was done.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	o, err := parse(args, getenv)
	if errors.Is(err, flag.ErrHelp) {
		usage(stdout)
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(stderr, "googleads:", err, "(-help lists the flags)")
		return exitUsage
	}
	var picture *plotFile
	if o.plot != "" {
		if picture, err = openPlot(o.plot); err != nil {
			fmt.Fprintln(stderr, "googleads:", err)
			return exitUsage
		}
	}
	results, err := runModes(ctx, o, stderr)
	switch {
	case len(results) == 0 && err != nil: // nothing was done
	case o.json:
		printJSON(stdout, reports(results))
	default:
		adsreport.PrintTable(stdout, o.quotaKnown, reports(results))
	}
	if picture != nil {
		if e := picture.save(o, results); e != nil {
			err = errors.Join(err, fmt.Errorf("-plot: %w", e))
		}
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "googleads:", err)
		return exitFailed
	case ctx.Err() != nil:
		return exitInterrupted
	case !good(reports(results)):
		return exitFailed
	}
	return exitOK
}

// runModes runs the modes one after the other, and returns what was measured,
// in the order of the table.
func runModes(ctx context.Context, o *options, stderr io.Writer) ([]*result, error) {
	t, err := newTarget(o)
	if err != nil {
		return nil, err
	}
	if o.dashboard != "" {
		if t.page, err = servePage(o.dashboard); err != nil {
			return nil, err
		}
		defer t.page.close()
		fmt.Fprintf(stderr, "dashboard on http://%s/\n", t.page.listener.Addr())
	}
	if o.metrics != "" {
		s, err := prometheus.Serve(o.metrics, telemetry.Config{})
		if err != nil {
			return nil, err
		}
		defer s.Close() // nothing is left to be told
		fmt.Fprintln(stderr, "metrics:", s.URL)
		o.watch = s.Telemetry.Watch
	}
	byMode := map[mode]*result{}
	for _, m := range o.order() {
		if ctx.Err() != nil {
			break
		}
		r, err := runMode(ctx, o, t, m, stderr)
		if r != nil {
			byMode[m] = r
		}
		if err != nil {
			return inOrder(byMode), fmt.Errorf("%s: %w", m, err)
		}
	}
	return inOrder(byMode), nil
}

func inOrder(byMode map[mode]*result) (rs []*result) {
	for _, m := range allModes {
		if r := byMode[m]; r != nil {
			rs = append(rs, r)
		}
	}
	return rs
}

// good reports whether every governed report is there, and every total right.
func good(rs []*adsreport.Result) bool {
	for _, r := range rs {
		if r.Mode != string(naive) && !r.Finished() || r.Checked && !r.Equal {
			return false
		}
	}
	return true
}

// printJSON prints an object with the modes that ran.
func printJSON(w io.Writer, rs []*adsreport.Result) {
	var object struct {
		Naive      *adsreport.Measured `json:"naive,omitempty"`
		Governed   *adsreport.Measured `json:"governed,omitempty"`
		Configured *adsreport.Measured `json:"configured,omitempty"`
	}
	for _, r := range rs {
		switch mode(r.Mode) {
		case naive:
			object.Naive = &r.Measured
		case governed:
			object.Governed = &r.Measured
		case configured:
			object.Configured = &r.Measured
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(object) // nobody is left to be told
}

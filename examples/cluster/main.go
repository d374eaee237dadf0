// Command cluster fetches the reports of two thousand Google Ads accounts by several
// processes that share one quota through Redis or MariaDB. One of them is killed on
// the way.
//
//	go run ./examples/cluster -store redis
//
// It starts everything that it needs: a private server for the store, a server that
// speaks Google's protocol, and the processes, which are this program again. README.md
// tells more.
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
	"syscall"

	"github.com/flyball-go/flyball/examples/internal/adsreport"
)

// replicaEnv is set in the environment of the processes that do the work.
const replicaEnv = "FLYBALL_EXAMPLE_REPLICA"

func main() {
	if os.Getenv(replicaEnv) != "" {
		os.Exit(replicaMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for anything
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// replicaMain is the program of one of the processes. What a terminal's Ctrl-C asks of
// it, the end of its input does.
func replicaMain() int {
	signal.Ignore(os.Interrupt)
	if err := runReplica(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return exitOK
}

// The exit codes. A missing report or a total that differs is a failure.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// run is the program. The end of ctx makes it drain and print what was done.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		usage(stdout)
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(stderr, "cluster:", err, "(-help lists the flags)")
		return exitUsage
	}
	outcomes, err := runModes(ctx, o, stderr)
	switch {
	case len(outcomes) == 0: // nothing was done
	case o.json:
		printJSON(stdout, outcomes)
	default:
		printTable(stdout, outcomes)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "cluster:", err)
		return exitFailed
	case ctx.Err() != nil:
		return exitInterrupted
	case !good(outcomes):
		return exitFailed
	}
	return exitOK
}

// good reports whether every report is there, and every total right.
func good(all []*outcome) bool {
	for _, c := range all {
		if !c.Finished() || !c.Equal {
			return false
		}
	}
	return true
}

// outcome is what all processes together did in one mode.
type outcome struct {
	adsreport.Result
	cluster
}

// cluster is what -json has beside adsreport.Measured.
type cluster struct {
	Accepted int64 `json:"accepted"` // calls
	Replicas int   `json:"replicas"` // processes at first
	Killed   int   `json:"killed"`   // of them
	Again    int   `json:"reports_handed_out_again"`
	Same     bool  `json:"totals_equal"`
}

func printTable(w io.Writer, all []*outcome) {
	var rs []*adsreport.Result
	for _, c := range all {
		rs = append(rs, &c.Result)
	}
	adsreport.PrintTable(w, true, rs)
	for _, c := range all {
		fmt.Fprintf(w, "%s: the server accepted %s calls of %d processes", c.Mode, adsreport.Comma(c.Accepted), c.Replicas)
		if c.Killed > 0 {
			fmt.Fprintf(w, "; %d was killed, and the %d reports that it had under way were handed out again", c.Killed, c.Again)
		}
		fmt.Fprintln(w)
	}
}

// printJSON prints an object with the modes that ran.
func printJSON(w io.Writer, all []*outcome) {
	type fields struct {
		adsreport.Measured
		cluster
	}
	object := map[string]fields{}
	for _, c := range all {
		object[c.Mode] = fields{c.Measured, c.cluster}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(object) // nobody is left to be told
}

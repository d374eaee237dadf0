package main

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsreport"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
)

// The modes: what the processes know of the quota.
const (
	governed   = "governed"   // nothing: each learns a rate, and they share cooldowns
	configured = "configured" // all of it: they share that, too
)

// options are the command line, checked.
type options struct {
	modes     []string
	store     string
	addr, dsn string // of an existing store
	replicas  int
	kill      float64
	json      bool
	progress  string
	workers   int
	conns     int
	startRate float64
	maxWait   time.Duration
	query     string
	model     fakeads.Flags
	server    fakeads.Config
}

// polled is the demo's quota with MariaDB: that another process was refused is heard of
// within 300 ms, which is longer than the demo's pauses. So these have a 25th of the
// real time instead of a hundredth, and calls count as on their way for 300 ms of them.
const polled = "qps=250,burst=20,cooldown=600ms,cooldown-max=36s,grace=300ms,latency=20ms"

func newFlagSet(o *options, mode, report *string) *flag.FlagSet {
	fs := flag.NewFlagSet("cluster", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar(mode, "mode", governed+","+configured, "governed, configured, or both with a comma")
	fs.StringVar(&o.store, "store", "redis", "what the processes share through: redis or mysql")
	fs.StringVar(&o.addr, "addr", "", "host:port of a Redis to use; empty: a private one is started")
	fs.StringVar(&o.dsn, "dsn", "", "user:password@tcp(host:port)/database of a MariaDB or MySQL to use; empty: a private one is started")
	fs.IntVar(&o.replicas, "replicas", 4, "processes that do the work")
	fs.Float64Var(&o.kill, "kill", 0.5, "share of the reports after which one process is killed; 0: none is")
	fs.BoolVar(&o.json, "json", false, "print one JSON object instead of the table")
	fs.StringVar(&o.progress, "progress", "plain", "plain (a line a second) or none")
	fs.IntVar(&o.workers, "workers", 16, "calls at once in each process")
	fs.IntVar(&o.conns, "conns", 2, "shared connections of each process")
	fs.Float64Var(&o.startRate, "start-rate", 100, "calls per second that the processes of the governed mode begin with, together")
	fs.DurationVar(&o.maxWait, "max-wait", 2*time.Minute, "longest pause that a report waits for")
	fs.StringVar(report, "report", "daily", "daily, hourly or campaigns")
	o.model.Register(fs)
	return fs
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: cluster [flags]")
	var mode, report string
	fs := newFlagSet(&options{}, &mode, &report)
	fs.SetOutput(w)
	fs.PrintDefaults()
}

func parse(args []string) (*options, error) {
	o := &options{}
	var modes, report string
	fs := newFlagSet(o, &modes, &report)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if quota := fs.Lookup("quota"); o.store == "mysql" && quota.Value.String() == quota.DefValue {
		if err := fs.Set("quota", polled); err != nil {
			return nil, err
		}
	}
	var err error
	if o.server, err = o.model.Config(); err != nil {
		return nil, err
	}
	for m := range strings.SplitSeq(modes, ",") {
		if m = strings.TrimSpace(m); m != governed && m != configured {
			return nil, fmt.Errorf("-mode %s: want governed or configured", m)
		}
		if !slices.Contains(o.modes, m) {
			o.modes = append(o.modes, m)
		}
	}
	o.query = adsreport.Queries[report]
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.query == "":
		return nil, fmt.Errorf("-report %s: want daily, hourly or campaigns", report)
	case o.store != "redis" && o.store != "mysql":
		return nil, fmt.Errorf("-store %s: want redis or mysql", o.store)
	case o.addr != "" && o.store != "redis":
		return nil, fmt.Errorf("-addr %s: is for -store redis", o.addr)
	case o.dsn != "" && o.store != "mysql":
		return nil, fmt.Errorf("-dsn: is for -store mysql")
	case o.replicas < 1 || o.replicas > 64:
		return nil, fmt.Errorf("-replicas %d: want 1 to 64", o.replicas)
	case !(o.kill >= 0 && o.kill < 1):
		return nil, fmt.Errorf("-kill %v: want 0 or more, and less than 1", o.kill)
	case o.kill > 0 && o.replicas < 2:
		return nil, fmt.Errorf("-replicas %d: want 2 or more, since one is killed (-kill 0: none is)", o.replicas)
	case o.progress != "plain" && o.progress != "none":
		return nil, fmt.Errorf("-progress %s: want plain or none", o.progress)
	case o.workers < 1 || o.workers > 1000:
		return nil, fmt.Errorf("-workers %d: want 1 to 1000", o.workers)
	case o.conns < 1 || o.conns > 100:
		return nil, fmt.Errorf("-conns %d: want 1 to 100", o.conns)
	case !(o.startRate > 0 && o.startRate <= 1e6):
		return nil, fmt.Errorf("-start-rate %v: want a number above 0", o.startRate)
	case o.maxWait <= 0:
		return nil, fmt.Errorf("-max-wait %v: want more than 0", o.maxWait)
	case o.model.Quota.Rate > 1e6:
		return nil, fmt.Errorf("-qps %v: want at most a million", o.model.Quota.Rate)
	case runtime.GOOS == "js" || runtime.GOOS == "wasip1":
		return nil, fmt.Errorf("there are no processes on %s", runtime.GOOS)
	}
	return o, nil
}

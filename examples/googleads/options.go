package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adsreport"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
	"github.com/flyball-go/flyball/governor"
)

// mode is a way to decide when calls are made.
type mode string

const (
	naive      mode = "naive"      // every goroutine obeys its own delay
	governed   mode = "governed"   // one governor, which does not know the quota
	configured mode = "configured" // one governor, which does
)

var allModes = []mode{naive, governed, configured}

// options are the command line and the environment, checked.
type options struct {
	modes      []mode
	json       bool
	progress   string
	dashboard  string
	plot       string                                         // file; empty: none
	metrics    string                                         // host:port; empty: none
	watch      func(governor.Handle) (stop func(), err error) // with metrics: measures a governor
	workers    int
	conns      int
	startRate  float64
	maxWait    time.Duration
	maxCalls   int64
	naiveLimit time.Duration

	report, query string
	customers     []string
	accountsSet   bool // -accounts was given: at most so many of another server's

	endpoint       string // empty: a server in this process
	version        string
	plaintext      bool
	ca             []byte
	creds          adsclient.Credentials
	accessToken    string
	developerToken string
	login          string

	quotaKnown bool // the server's, or told by -qps
	model      fakeads.Flags
	server     fakeads.Config // of the server in this process
}

// order returns the modes in the order in which they are run: on a server that
// stays the same the naive one comes last, since the others would find its
// pauses.
func (o *options) order() []mode {
	if o.endpoint == "" || !slices.Contains(o.modes, naive) {
		return o.modes
	}
	rest := slices.DeleteFunc(slices.Clone(o.modes), func(m mode) bool { return m == naive })
	return append(rest, naive)
}

// raw are the flags whose values need more than the flag package does.
type raw struct{ mode, customers, ca string }

func newFlagSet(o *options, r *raw, getenv func(string) string) *flag.FlagSet {
	fs := flag.NewFlagSet("googleads", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	env := func(p *string, name, key, usage string) { fs.StringVar(p, name, getenv(key), usage+" ["+key+"]") }

	fs.StringVar(&r.mode, "mode", "", "naive, governed or configured; several with commas; empty: all that the endpoint allows")
	fs.BoolVar(&o.json, "json", false, "print one JSON object instead of the table")
	fs.StringVar(&o.progress, "progress", "auto", "auto, plain (a line a second) or none")
	fs.StringVar(&o.dashboard, "dashboard", "", "loopback host:port to serve a live page of the governors on, while the job runs")
	fs.StringVar(&o.plot, "plot", "", "file for a picture of the goodput over time, which ends in .svg or .png; empty: none")
	fs.StringVar(&o.metrics, "metrics", "", "host:port where Prometheus finds /metrics during the job, such as 127.0.0.1:9464; empty: nowhere")
	fs.IntVar(&o.workers, "workers", 16, "calls at once")
	fs.IntVar(&o.conns, "conns", 2, "shared connections")
	fs.Float64Var(&o.startRate, "start-rate", 100, "calls per second that the governed mode begins with")
	fs.DurationVar(&o.maxWait, "max-wait", 2*time.Minute, "longest pause that a report waits for")
	fs.Int64Var(&o.maxCalls, "max-calls", -1, "calls in each mode; 0: any number; -1: 50, and any number on loopback")
	fs.DurationVar(&o.naiveLimit, "naive-limit", 8*time.Second, "time after which the naive mode is stopped")
	fs.StringVar(&o.report, "report", "daily", "daily, hourly or campaigns")
	fs.StringVar(&o.query, "query", "", "a query of your own, run on every account, instead of -report")
	fs.StringVar(&r.customers, "customers", "", "account IDs, separated by commas; empty: all that are found")

	env(&o.endpoint, "endpoint", "GOOGLE_ADS_ENDPOINT", "host:port of the API, googleads.googleapis.com:443 for the real one; empty: a server in this process")
	fs.StringVar(&o.version, "api-version", "v25", "version in the methods' paths")
	fs.BoolVar(&o.plaintext, "plaintext", false, "no TLS; loopback only, and the default there without -ca")
	fs.StringVar(&r.ca, "ca", "", "file with the root certificate of the endpoint; empty: the system's roots")
	env(&o.creds.ClientID, "client-id", "GOOGLE_ADS_CLIENT_ID", "OAuth client")
	env(&o.creds.ClientSecret, "client-secret", "GOOGLE_ADS_CLIENT_SECRET", "its secret")
	env(&o.creds.RefreshToken, "refresh-token", "GOOGLE_ADS_REFRESH_TOKEN", "refresh token of its user")
	fs.StringVar(&o.creds.TokenURL, "token-url", "", "where access tokens are had; empty: Google's, and /token of the endpoint on loopback")
	fs.StringVar(&o.accessToken, "access-token", "", "access token to use instead")
	env(&o.developerToken, "developer-token", "GOOGLE_ADS_DEVELOPER_TOKEN", "sent when it is given; Google ignores it")
	env(&o.login, "login-customer-id", "GOOGLE_ADS_LOGIN_CUSTOMER_ID", "manager account to go through; empty: found")
	o.model.Register(fs)
	return fs
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: googleads [flags]")
	fmt.Fprintln(w, "Flags that describe a server, such as -accounts and -quota, are for the one in this process.")
	fmt.Fprintln(w, "For another server, -accounts is how many to report at most, and -qps and -burst tell its quota.")
	fs := newFlagSet(&options{}, &raw{}, func(string) string { return "" })
	fs.SetOutput(w)
	fs.PrintDefaults()
}

var (
	versionForm  = regexp.MustCompile(`^v[1-9][0-9]{0,2}$`)
	customerForm = regexp.MustCompile(`^[0-9]{10}$`)
)

// parse reads the command line. Credentials in the environment are for other
// servers: the one in this process is not shown them.
func parse(args []string, getenv func(string) string) (*options, error) {
	o, r := &options{}, &raw{}
	fs := newFlagSet(o, r, getenv)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	o.accountsSet = given["accounts"]
	o.quotaKnown = o.endpoint == "" || given["qps"] || !o.remote()
	if r.customers != "" {
		o.customers = strings.Split(r.customers, ",")
	}
	for _, id := range append([]*string{&o.login}, pointers(o.customers)...) {
		*id = strings.ReplaceAll(strings.TrimSpace(*id), "-", "")
	}
	var err error
	if o.server, err = o.model.Config(); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.checkEndpoint(given, r.ca); err != nil {
		return nil, err
	}
	return o, o.chooseModes(r.mode)
}

// check checks what is the same for every server.
func (o *options) check() error {
	if o.query == "" {
		if o.query = adsreport.Queries[o.report]; o.query == "" {
			return fmt.Errorf("-report %s: want daily, hourly or campaigns", o.report)
		}
	}
	switch {
	case o.workers < 1 || o.workers > 10_000:
		return fmt.Errorf("-workers %d: want 1 to 10000", o.workers)
	case o.conns < 1 || o.conns > 100:
		return fmt.Errorf("-conns %d: want 1 to 100", o.conns)
	case !(o.startRate > 0 && o.startRate <= 1e6):
		return fmt.Errorf("-start-rate %v: want a number above 0", o.startRate)
	case o.maxWait <= 0:
		return fmt.Errorf("-max-wait %v: want more than 0", o.maxWait)
	case o.naiveLimit <= 0:
		return fmt.Errorf("-naive-limit %v: want more than 0", o.naiveLimit)
	case o.maxCalls < -1:
		return fmt.Errorf("-max-calls %d: want 0 or more", o.maxCalls)
	case !slices.Contains([]string{"auto", "plain", "none"}, o.progress):
		return fmt.Errorf("-progress %s: want auto, plain or none", o.progress)
	case o.dashboard != "" && !loopback(o.dashboard):
		return fmt.Errorf("-dashboard %s: want a port of this machine alone, like 127.0.0.1:8080, since anybody may read the page", o.dashboard)
	case !versionForm.MatchString(o.version):
		return fmt.Errorf("-api-version %s: want a form like v25", o.version)
	case o.login != "" && !customerForm.MatchString(o.login):
		return fmt.Errorf("-login-customer-id %s: want ten digits", o.login)
	}
	for _, id := range o.customers {
		if !customerForm.MatchString(id) {
			return fmt.Errorf("-customers %s: want ten digits", id)
		}
	}
	return nil
}

// chooseModes reads -mode. A real API gets no naive client, and a governor that
// is told its quota only when it is.
func (o *options) chooseModes(list string) error {
	if list == "" {
		for _, m := range allModes {
			if !o.remote() || m == governed || m == configured && o.quotaKnown {
				o.modes = append(o.modes, m)
			}
		}
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		m := mode(strings.TrimSpace(name))
		switch {
		case !slices.Contains(allModes, m):
			return fmt.Errorf("-mode %s: want naive, governed or configured", name)
		case o.remote() && m == naive:
			return errors.New("-mode naive: only against a loopback endpoint, since it makes pauses grow")
		case m == configured && !o.quotaKnown:
			return errors.New("-mode configured: needs the quota, -qps and -burst")
		case !slices.Contains(o.modes, m):
			o.modes = append(o.modes, m)
		}
	}
	return nil
}

func pointers(xs []string) []*string {
	ps := make([]*string, len(xs))
	for i := range xs {
		ps[i] = &xs[i]
	}
	return ps
}

// Command adsserver is a fake Google Ads API: Google's gRPC protocol in front of
// invented accounts and a quota that behaves as a strict vendor's does.
//
//	go run ./examples/googleads/adsserver -listen 127.0.0.1:50051
//
// It is the other side of ./examples/googleads when that is told its address
// with -endpoint, and an independent witness of what a client does: on Ctrl-C it
// prints what it saw.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/flyball-go/flyball/examples/internal/fakeads"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run serves until ctx ends. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fail := func(code int, err error) int {
		hint := ""
		if code == 2 {
			hint = " (-help lists the flags)"
		}
		fmt.Fprintf(stderr, "adsserver: %s%s\n", strings.TrimPrefix(err.Error(), "fakeads: "), hint)
		return code
	}
	fs := flag.NewFlagSet("adsserver", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	listen := fs.String("listen", "127.0.0.1:50051", "address to serve on: gRPC, and POST /token for access tokens")
	versions := fs.String("api-versions", "v25", "API versions, separated by commas")
	secure := fs.Bool("tls", false, "serve TLS with a new certificate, and print where the root to trust is")
	var flags fakeads.Flags
	flags.Register(fs)
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stdout, "adsserver serves a fake Google Ads API until Ctrl-C. Its flags:")
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return 0
	} else if err != nil {
		return fail(2, err)
	}
	if fs.NArg() > 0 {
		return fail(2, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	cfg, err := flags.Config()
	if err != nil {
		return fail(2, err)
	}
	cfg.Versions = strings.Split(*versions, ",")
	if cfg.Data, err = fakeads.NewData(flags.Seed, flags.Accounts); err != nil {
		return fail(2, err)
	}
	server, err := fakeads.New(cfg)
	if err != nil {
		return fail(2, err)
	}
	lis, err := net.Listen("tcp", *listen)
	if err != nil {
		return fail(1, err)
	}
	if *secure {
		var ca string
		if lis, ca, err = fakeads.TLS(lis); err != nil {
			return fail(1, err)
		}
		defer os.Remove(ca) // a temporary file
		fmt.Fprintln(stdout, "root certificate", ca)
	}
	fmt.Fprintf(stdout, "serving %d accounts on %s, %v calls/s, burst %d, pauses %v to %v\n",
		flags.Accounts, lis.Addr(), cfg.Quota.Rate, cfg.Quota.Burst, cfg.Quota.Pause, cfg.Quota.MaxPause)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	select {
	case <-ctx.Done():
		server.Close()
		err = <-served
	case err = <-served:
	}
	print(stdout, server.Seen())
	if err != nil {
		return fail(1, err)
	}
	return 0
}

// print writes what the server witnessed.
func print(w io.Writer, s fakeads.Seen) {
	for _, line := range []struct {
		name  string
		value any
	}{
		{"calls", s.Calls},
		{"accepted", s.Accepted},
		{"refused", s.Refused},
		{"arrived during a pause", s.InPause},
		{"escalations", s.Escalations},
		{"longest pause", s.LongestPause.Round(time.Millisecond)},
		{"rows sent", s.Rows},
	} {
		fmt.Fprintf(w, "%-24s %v\n", line.name, line.value)
	}
}

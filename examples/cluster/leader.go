package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
	"github.com/flyball-go/flyball/store"
)

// leader hands out the accounts to the processes. It reads the reports but makes no
// call: those are governed where they are made. It is used by one goroutine.
type leader struct {
	o      *options
	mode   string
	stderr io.Writer
	hear   chan heard
	all    []*child

	queue  []adsclient.Access // to hand out
	begun  bool               // the accounts are known
	total  int
	done   int
	failed int
	first  error
	sum    fakeads.Totals
	killed *child
	again  int       // reports that had been handed out to who was killed
	end    time.Time // when the last report came
	broken error     // why nothing more is handed out
}

// runModes runs the modes one after the other, each with a new server.
func runModes(ctx context.Context, o *options, stderr io.Writer) (all []*outcome, err error) {
	data, err := fakeads.NewData(o.model.Seed, o.model.Accounts)
	if err != nil {
		return nil, err
	}
	p, end, err := startStore(ctx, o)
	if err != nil {
		return nil, err
	}
	defer end()
	now := time.Now() // the day of all reports
	for _, mode := range o.modes {
		if ctx.Err() != nil {
			break
		}
		c, err := runMode(ctx, o, mode, data, now, p, stderr)
		if c != nil {
			all = append(all, c)
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", mode, err)
		}
	}
	return all, nil
}

// runMode does the job once.
func runMode(ctx context.Context, o *options, mode string, data *fakeads.Data, now time.Time, p place, stderr io.Writer) (*outcome, error) {
	cfg := o.server
	cfg.Data, cfg.Now = data, func() time.Time { return now }
	server, err := fakeads.New(cfg)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Close()
		<-served
	}()
	s := setup{
		// A name of its own: another run is another vendor.
		Name: fmt.Sprintf("googleads, %s, %d", mode, time.Now().UnixNano()), Place: p, Endpoint: listener.Addr().String(), Query: o.query,
		Workers: o.workers, Conns: o.conns, MaxWait: o.maxWait, StartRate: o.startRate / float64(o.replicas),
	}
	if mode == configured {
		s.Quota = []store.Limit{within(o.model.Quota.Rate, o.model.Quota.Burst)}
	}
	l := &leader{o: o, mode: mode, stderr: stderr, hear: make(chan heard), queue: []adsclient.Access{{}}}
	err = l.run(ctx, s)
	c := l.outcome(server.Seen())
	if c.Finished() {
		want, err := data.Totals(o.query, now, data.Customers())
		if err != nil {
			return c, err
		}
		c.Checked, c.Equal = true, want == l.sum
		c.Same = c.Equal
	}
	return c, err
}

// run starts the processes, and returns when none is left.
func (l *leader) run(ctx context.Context, s setup) error {
	for n := range l.o.replicas {
		c, err := startChild(n+1, s, l.hear)
		if err != nil {
			l.broken = err
			break
		}
		l.all = append(l.all, c)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	stopped := ctx.Done()
	var late <-chan time.Time
	for l.handOut(stopped == nil); l.left() > 0; l.handOut(stopped == nil) {
		if l.over() && late == nil {
			late = time.After(drainTime + 5*time.Second)
		}
		select {
		case h := <-l.hear:
			l.heard(h, stopped == nil)
		case <-tick.C:
			l.show()
		case <-stopped:
			stopped = nil
			late = time.After(drainTime + 5*time.Second)
		case <-late: // of who does not end when told to
			for _, c := range l.all {
				if !c.gone {
					c.kill()
				}
			}
		}
	}
	l.show()
	return l.broken
}

// over reports whether there is nothing to wait for.
func (l *leader) over() bool {
	return l.broken != nil || l.begun && l.done+l.failed == l.total
}

func (l *leader) left() (n int) {
	for _, c := range l.all {
		if !c.gone {
			n++
		}
	}
	return n
}

// handOut keeps the processes busy: what one holds beyond its workers would come late
// if another were free. When all is done, or stopped, it tells them to end.
func (l *leader) handOut(stopped bool) {
	if stopped || l.over() {
		for _, c := range l.all {
			c.close()
		}
		return
	}
	// In turn, so that a short queue is spread.
	for given := true; given && len(l.queue) > 0; {
		given = false
		for _, c := range l.all {
			if len(l.queue) > 0 && !c.gone && !c.killed && len(c.under) < l.o.workers {
				c.send(l.queue[0])
				l.queue = l.queue[1:]
				given = true
			}
		}
	}
}

// heard takes in what a child told. A report counts when its line has come: of a child
// that is killed, the lines that it had written still do, and no other child has been
// given their accounts, since that waits for its end.
func (l *leader) heard(h heard, stopped bool) {
	c := h.from
	if h.end {
		l.ended(c, h.err)
		return
	}
	c.last = h.told
	if h.Last {
		return
	}
	if _, ok := c.under[h.Account]; !ok {
		return
	}
	delete(c.under, h.Account)
	switch {
	case h.Error != "":
		if stopped {
			return // it was dropped
		}
		err := errors.New(h.Error)
		if h.Account == "" || h.Fatal {
			l.broken = err
			return
		}
		if l.failed++; l.first == nil {
			l.first = fmt.Errorf("account %s: %w", h.Account, err)
		}
	case h.Account == "":
		l.begun, l.total, l.queue = true, len(h.Found), h.Found
		if l.total == 0 {
			l.broken = errors.New("there are no accounts")
		}
	default:
		l.done++
		l.sum.Add(h.Sum)
		l.end = time.Now()
	}
	if l.killed == nil && l.begun && l.o.kill > 0 && !l.over() && float64(l.done) >= l.o.kill*float64(l.total) {
		l.killOne()
	}
}

// killOne kills the process with the most to lose.
func (l *leader) killOne() {
	for _, c := range l.all {
		if !c.gone && (l.killed == nil || len(c.under) > len(l.killed.under)) {
			l.killed = c
		}
	}
	if l.killed != nil {
		l.killed.kill()
	}
}

// ended hands a dead child's accounts to the others. Their calls may have been made:
// they are made again, and count against the quota again.
func (l *leader) ended(c *child, err error) {
	c.gone = true
	c.close() // our end of its input
	if c == l.killed {
		l.again = len(c.under)
		if l.o.progress != "none" {
			fmt.Fprintf(l.stderr, "%s: process %d killed after %d reports; %d that it had under way are handed out again\n", l.mode, c.cmd.Process.Pid, l.done, l.again)
		}
	} else if err != nil && l.broken == nil {
		l.broken = fmt.Errorf("process %d of %d: %w", c.n, l.o.replicas, err)
	}
	for _, a := range c.under {
		l.queue = append(l.queue, a)
	}
	clear(c.under)
}

func (l *leader) show() {
	if l.o.progress == "none" || !l.begun {
		return
	}
	processes := ""
	if n := l.left(); n > 0 { // none at the end
		processes = fmt.Sprintf("  %d processes", n)
	}
	fmt.Fprintf(l.stderr, "%-10s %d/%d%s\n", l.mode, l.done, l.total, processes)
}

// outcome puts together what the processes and the server know.
func (l *leader) outcome(seen fakeads.Seen) *outcome {
	c := &outcome{cluster: cluster{Accepted: seen.Accepted, Replicas: l.o.replicas, Again: l.again}}
	r := &c.Result
	r.Mode, r.Total, r.Failed, r.First, r.Sum = l.mode, l.total, l.failed, l.first, l.sum
	r.Calls, r.Completed, r.Refused, r.Rows = seen.Calls, l.done, seen.Refused, l.sum.Rows
	r.Own, r.Arrivals, r.Escalations, r.LongestPause = true, seen.InPause, seen.Escalations, seen.LongestPause.Milliseconds()
	var since time.Time
	for _, child := range l.all {
		if child == l.killed {
			c.Killed++
		}
		r.DuringPause += child.last.DuringPause
		if s := child.last.Since; !s.IsZero() && (since.IsZero() || s.Before(since)) {
			since = s
		}
	}
	if !since.IsZero() && l.end.After(since) {
		elapsed := l.end.Sub(since)
		r.ElapsedMillis = elapsed.Milliseconds()
		r.Goodput(l.o.model.Quota.Rate, elapsed.Seconds())
	}
	return c
}

// within is a shared limit that a bucket of the vendor's, of rate calls a second and
// burst at once, holds. The store's bucket fills at 98 % of the rate. It hands out a fifth of the
// burst at once, and what it has handed out may be used for as long as the vendor's
// bucket takes to fill by half: together with what the ways of calls differ by that is
// less than the burst.
func within(rate float64, burst int) store.Limit {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	l := store.Limit{Kind: store.Bucket, Per: max(time.Second, seconds(100/rate)), Burst: int64(max(1, burst/5))}
	l.Lease = min(max(seconds(0.4*float64(burst)/rate), 5*time.Millisecond), l.Per)
	l.Transit = min(max(seconds(0.1*float64(burst)/rate), time.Millisecond), 10*time.Millisecond)
	l.Quota = max(l.Burst, int64(0.98*rate*(l.Per+l.Lease+l.Transit).Seconds())+l.Burst-1)
	return l
}

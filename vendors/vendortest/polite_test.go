package vendortest_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// politeRun is many goroutines that call one vendor through one http.Client.
type politeRun struct {
	adapter vendors.Adapter
	handler http.Handler
	limits  []governor.Limit
	workers int // 0: 64
	next    func(caller, i int) asked
	job     func(caller, i int, send func(asked) ([]byte, error)) error // in place of next: several calls
	parts   bool                                                        // a refusal of a part of a call comes back to the caller
	totals  func() map[string]vendortest.Totals                         // by limit
}

// asked is one call of a run, and the wishes that it is made with.
type asked struct {
	method, path, body string
	header             map[string]string
	ask                governor.Ask // what the adapter does not find in the path
}

const callers = 200

// do does what a caller's i-th turn is.
func (p *politeRun) do(ctx context.Context, c *http.Client, base string, caller, i int) error {
	send := func(in asked) ([]byte, error) { return p.send(ctx, c, base, in) }
	if p.job != nil {
		return p.job(caller, i, send)
	}
	_, err := send(p.next(caller, i))
	return err
}

// send makes one call and returns what its answer says.
func (p *politeRun) send(ctx context.Context, c *http.Client, base string, in asked) ([]byte, error) {
	ctx = httpx.WithAsk(ctx, in.ask)
	req, err := http.NewRequestWithContext(ctx, in.method, base+in.path, strings.NewReader(in.body))
	if err != nil {
		return nil, err
	}
	for k, v := range in.header {
		req.Header.Set(k, v)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	r := vendors.Response{Status: resp.StatusCode, Header: resp.Header, Body: body, At: time.Now()}
	if len(p.adapter.Read(r)) > 0 || r.Status >= 400 {
		return nil, &vendors.ResponseError{Response: r}
	}
	return body, nil
}

// host is how the vendor is governed.
func (p *politeRun) host(string) (governor.PlainConfig, error) {
	workers := p.workers
	if workers == 0 {
		workers = 64
	}
	return governor.PlainConfig{Workers: workers, Limits: p.limits, MaxWait: -1, LimitedAttempts: -1}, nil
}

// govern makes calls from many goroutines by one client, which sends by way of base,
// until ctx ends, or until n are done, and returns how many were.
func (p *politeRun) govern(ctx context.Context, t *testing.T, base http.RoundTripper, url string, n int64) int64 {
	tr := httpx.NewTransport(httpx.Config{Vendor: p.adapter, Base: base, Host: p.host})
	c := &http.Client{Transport: tr}
	var wg sync.WaitGroup
	var begun, done atomic.Int64
	for caller := range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := begun.Add(1)
				if n > 0 && i > n {
					return
				}
				err := p.do(ctx, c, url, caller, int(i))
				_, limited := p.adapter.DelayError(err)
				if err == nil {
					done.Add(1)
				} else if limited && p.parts { // the caller's next turn is to make up for it
					continue
				} else if ctx.Err() == nil {
					t.Errorf("call %d: %v", i, err)
					return // in a bubble errors take no time, and there is no end of them
				}
			}
		})
	}
	wg.Wait()
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	return done.Load()
}

// virtually runs for so long in a bubble, over net/http and pipes. look is called at
// the end of that time, and the run goes on for a moment.
func (p *politeRun) virtually(t *testing.T, long time.Duration, look func()) {
	synctest.Test(t, func(t *testing.T) {
		ln := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		srv := &http.Server{Handler: p.handler}
		go func() { _ = srv.Serve(ln) }()
		tr := &http.Transport{DialContext: ln.dial, MaxIdleConnsPerHost: callers}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(long)
			look()
			cancel()
		}()
		p.govern(ctx, t, &distance{tr}, "http://vendor.test", 0)
		<-ctx.Done()
		tr.CloseIdleConnections()
		_ = srv.Shutdown(t.Context()) // waits for handlers
	})
}

// really makes n calls to a server on the loopback interface.
func (p *politeRun) really(t *testing.T, n int64) {
	srv := httptest.NewServer(p.handler)
	defer srv.Close()
	tr := &http.Transport{MaxIdleConnsPerHost: callers}
	defer tr.CloseIdleConnections()
	if done := p.govern(t.Context(), t, tr, srv.URL, n); done != n {
		t.Errorf("%d of %d calls done", done, n)
	}
}

// distance is a way to the server and back that takes some milliseconds.
type distance struct{ http.RoundTripper }

func (d *distance) RoundTrip(r *http.Request) (*http.Response, error) {
	way := func() { time.Sleep(time.Duration(5+rand.IntN(20)) * time.Millisecond) }
	way()
	defer way()
	return d.RoundTripper.RoundTrip(r)
}

// pipes is a network in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "vendor.test", Net: "pipe"} }

// polite fails when the vendor saw anything that a polite client does not do.
func (p *politeRun) polite(t *testing.T) {
	t.Helper()
	for name, got := range p.totals() {
		t.Logf("%s: %+v", name, got)
		if got.Late != 0 || got.Escalations != 0 {
			t.Errorf("%s: %d calls begun during a pause, %d escalations, want none", name, got.Late, got.Escalations)
		}
	}
}

// neverRefused fails when the vendor refused anything: who knows its limits keeps them.
func (p *politeRun) neverRefused(t *testing.T) {
	t.Helper()
	for name, got := range p.totals() {
		if got.Refused != 0 {
			t.Errorf("%s: %d were refused, want none", name, got.Refused)
		}
	}
}

// goodput fails when less than 95 % of a quota was used.
func goodput(t *testing.T, name string, used int64, quota int) {
	t.Helper()
	share := float64(used) / float64(quota)
	t.Logf("%s: %d of %d documented, %.1f %%", name, used, quota, 100*share)
	if share < 0.95 {
		t.Errorf("%s: %.1f %% of the documented quota, want 95", name, 100*share)
	}
}

// slow answers after a while.
func slow() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond)
		_, _ = w.Write([]byte("{}"))
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

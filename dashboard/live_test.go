package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// stream is a reader of server-sent events.
type stream struct {
	t     *testing.T
	res   *http.Response
	lines *bufio.Scanner
	stop  context.CancelFunc
}

type sent struct{ event, id, data, retry string }

func listen(t *testing.T, url string, header ...string) *stream {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute) // of a test that would not end
	t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	s := &stream{t, res, bufio.NewScanner(res.Body), stop}
	s.lines.Buffer(nil, 8<<20)
	return s
}

// next returns the next message; ok is false at the end.
func (s *stream) next() (m sent, ok bool) {
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch field {
		case "event":
			m.event = value
		case "id":
			m.id = value
		case "data":
			m.data = value
		case "retry":
			m.retry = value
		case "":
			if m.event != "" {
				return m, true
			}
		}
	}
	return m, false
}

func read[T any](s *stream) (v T, m sent) {
	s.t.Helper()
	m, ok := s.next()
	if !ok {
		s.t.Fatalf("the stream ended: %v", s.lines.Err())
	}
	if err := json.Unmarshal([]byte(m.data), &v); err != nil {
		s.t.Fatalf("%v of %s", err, m.data)
	}
	return v, m
}

func serve(t *testing.T, d http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(d)
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestStreamTellsAtOnceAndThenEverySecond(t *testing.T) {
	t.Parallel()
	g := newGovernor(t, governor.PlainConfig{})
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g)})
	s := listen(t, serve(t, d)+"/live")
	if s.res.StatusCode != 200 || s.res.Header.Get("Content-Type") != "text/event-stream" || s.res.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%+v", s.res)
	}
	o, m := read[dashboard.Overview](s)
	if m.event != "overview" || m.retry != "2000" || len(o.Governors) != 1 {
		t.Errorf("%+v", m)
	}
	for range 10 {
		began := o.Time
		o, _ = read[dashboard.Overview](s)
		o, _ = read[dashboard.Overview](s)
		took := o.Time.Sub(began)
		if took >= 900*time.Millisecond && took <= 4*time.Second {
			return
		}
		t.Logf("two more after %v", took) // on a machine that stood still meanwhile
	}
	t.Error("never two more in 0.9s to 4s")
}

// A decision is not kept for the next second.
func TestCooldownIsToldSoon(t *testing.T) {
	t.Parallel()
	g := newGovernor(t, governor.PlainConfig{})
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g)})
	s := listen(t, serve(t, d)+"/live?governor=acme")
	for {
		if _, m := read[dashboard.Detail](s); m.id != "" {
			break
		}
	}
	for range 5 {
		before := time.Now()
		g.Learn(throttle.Signal{Delay: time.Hour})
		for {
			if o, _ := read[dashboard.Detail](s); o.State == "cooling" {
				if len(o.Cooldowns) != 1 || o.Cooldowns[0].Left < 3599e3 {
					t.Errorf("%+v", o.Cooldowns)
				}
				break
			}
		}
		if took := time.Since(before); took > 30*time.Second { // 200 ms, on a machine that has nothing else to do
			t.Errorf("told after %v", took)
		}
		g.Clear(throttle.Scope{})
		for {
			if o, _ := read[dashboard.Detail](s); o.State == "idle" {
				break
			}
		}
	}
}

// A reader who comes back gets what it missed, and none of it twice.
func TestStreamGoesOnAfterLastEventID(t *testing.T) {
	t.Parallel()
	g := newGovernor(t, governor.PlainConfig{})
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g)})
	url := serve(t, d) + "/live?governor=acme"
	var points []int64
	var events []uint64
	id := ""
	for round := range 3 {
		s := listen(t, url, "Last-Event-ID", id)
		for range 2 {
			g.Learn(throttle.Signal{Delay: time.Hour, Scope: throttle.Scope{Level: throttle.Tenant, Key: string(rune('a' + round))}})
			o, m := read[dashboard.Detail](s)
			if id = m.id; m.event != "detail" || id == "" {
				t.Fatalf("%+v", m)
			}
			points = append(points, o.History.Time...)
			for _, e := range o.Events {
				events = append(events, e.ID)
			}
		}
		s.stop()
		time.Sleep(1100 * time.Millisecond)
	}
	seen := map[uint64]bool{}
	for _, e := range events {
		seen[e] = true
	}
	for n := uint64(1); n <= uint64(len(seen)); n++ {
		if !seen[n] {
			t.Errorf("event %d is missing of %v", n, events)
		}
	}
	if len(points) < 2 || len(seen) < 3 {
		t.Errorf("%d points, events %v", len(points), events)
	}
	if s := listen(t, url, "Last-Event-ID", "another-7"); true {
		o, _ := read[dashboard.Detail](s)
		if all := o.History.Time; len(o.Events) < len(seen) || len(all) < len(points) || !slices.Equal(all[:len(points)], points) {
			t.Errorf("after a restart: points %v, %d events; before, points %v", all, len(o.Events), points)
		}
	}
}

func TestStreamOfWhatIsNotThere(t *testing.T) {
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(newGovernor(t, governor.PlainConfig{}))})
	if _, m := read[struct{}](listen(t, serve(t, d)+"/live?governor=gone")); m.event != "gone" {
		t.Errorf("%+v", m)
	}
}

func TestOneReaderTooManyIsToldToComeLater(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(), MaxClients: 2})
	url := serve(t, d) + "/live"
	first := listen(t, url)
	read[dashboard.Overview](first)
	read[dashboard.Overview](listen(t, url))
	if s := listen(t, url); s.res.StatusCode != 503 || s.res.Header.Get("Retry-After") == "" {
		t.Errorf("%d", s.res.StatusCode)
	}
	first.stop()
	until(t, func() bool { // the server notices
		s := listen(t, url)
		defer s.stop()
		return s.res.StatusCode == 200
	})
}

// A reader who does not read holds up nobody, and is dropped.
func TestSlowReaderIsDropped(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the deadline of a write")
	}
	var many []governor.Handle
	for range 100 { // so that a message fills the buffers of a connection
		many = append(many, newGovernor(t, governor.PlainConfig{Name: strings.Repeat("n", 180)}))
	}
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(many...), MaxClients: 2})
	srv := httptest.NewUnstartedServer(d)
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		return ctx
	}
	srv.Start()
	t.Cleanup(srv.Close)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	begin := time.Now()
	if _, err := conn.Write([]byte("GET /live HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // it has begun, and reads no more
		t.Fatal(err)
	}
	good := listen(t, srv.URL+"/live")
	read[dashboard.Overview](good)
	// A write may take 5 s, and a machine that stands still may take that long to come here.
	s := listen(t, srv.URL+"/live")
	s.stop() // or it would be one of two itself
	if s.res.StatusCode != 503 && time.Since(begin) < 5*time.Second {
		t.Fatalf("the slow one is not counted: %d", s.res.StatusCode)
	}
	for {
		s := listen(t, srv.URL+"/live")
		s.stop()
		if s.res.StatusCode == 200 {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("it is not dropped")
		}
		read[dashboard.Overview](good)
	}
}

func TestCloseEndsStreamsAndLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	g, err := governor.New(governor.PlainConfig{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	down := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g), Peers: []string{down.URL}, PeerTimeout: time.Hour})
	srv := httptest.NewUnstartedServer(d)
	srv.Config.RegisterOnShutdown(func() { d.Close() })
	srv.Start()
	client := &http.Client{Transport: &http.Transport{}}
	var all []*bufio.Scanner
	for _, q := range []string{"", "?governor=acme"} {
		res, err := client.Get(srv.URL + "/live" + q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		all = append(all, bufio.NewScanner(res.Body))
		all[len(all)-1].Scan()
	}
	silent := make(chan struct{})
	go func() { // says nothing before its peer does
		defer close(silent)
		if res, err := client.Get(srv.URL + "/live?governor=x&peer=1"); err == nil {
			res.Body.Close()
		}
	}()
	time.Sleep(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := srv.Config.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	for _, s := range all {
		for s.Scan() {
		}
	}
	d.Close()
	<-silent
	client.CloseIdleConnections()
	down.CloseClientConnections()
	down.Close()
	g.Close()
	until(t, func() bool { runtime.Gosched(); return runtime.NumGoroutine() <= before })
}

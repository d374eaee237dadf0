package faultproxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/faultproxy"
)

// server answers each line with itself in upper case, and counts them.
type server struct {
	net.Listener
	lines atomic.Int64
	work  sync.WaitGroup
}

func start(t *testing.T) (*server, *faultproxy.Proxy) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: l}
	s.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.work.Go(func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					s.lines.Add(1)
					io.WriteString(c, strings.ToUpper(in.Text())+"\n")
				}
			})
		}
	})
	p, err := faultproxy.Listen(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if n := p.Open(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		l.Close()
		s.work.Wait()
	})
	return s, p
}

type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *faultproxy.Proxy) *client {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{c, bufio.NewReader(c)}
}

// say sends a line, and returns the answer, or what came instead of it within a time.
func (c *client) say(line string, within time.Duration) (string, error) {
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	c.SetReadDeadline(time.Now().Add(within))
	s, err := c.in.ReadString('\n')
	return strings.TrimSuffix(s, "\n"), err
}

func timedOut(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func TestWithoutAFaultAllPasses(t *testing.T) {
	s, p := start(t)
	c := dial(t, p)
	long := strings.Repeat("x", 60_000)
	for _, line := range []string{"a", "", long} {
		if got, err := c.say(line, 5*time.Second); err != nil || got != strings.ToUpper(line) {
			t.Errorf("a line of %d bytes is answered by %d, %v", len(line), len(got), err)
		}
	}
	if s.lines.Load() != 3 || p.Open() != 1 || p.Passed() != 2*(1+60_000+3) {
		t.Errorf("%d lines, %d connections, %d bytes", s.lines.Load(), p.Open(), p.Passed())
	}
}

func TestADelayIsAddedEachWayAndPiecesStayInOrder(t *testing.T) {
	_, p := start(t)
	c := dial(t, p)
	p.Set(faultproxy.Fault{Delay: 50 * time.Millisecond, Jitter: 20 * time.Millisecond})
	begin := time.Now()
	if got, err := c.say("a", 5*time.Second); err != nil || got != "A" {
		t.Fatalf("answered by %q, %v", got, err)
	}
	if d := time.Since(begin); d < 100*time.Millisecond {
		t.Errorf("answered after %v, with a delay of 50ms each way", d)
	}
	for i := range 20 {
		io.WriteString(c, string(rune('a'+i))+"\n")
		time.Sleep(time.Millisecond)
	}
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	for i := range 20 {
		if got, err := c.in.ReadString('\n'); err != nil || got != string(rune('A'+i))+"\n" {
			t.Fatalf("line %d is answered by %q, %v", i, got, err)
		}
	}
}

func TestSwallowedAnswersWereAsked(t *testing.T) {
	s, p := start(t)
	c := dial(t, p)
	p.Set(faultproxy.Fault{DropAnswers: true})
	if got, err := c.say("a", 100*time.Millisecond); !timedOut(err) {
		t.Errorf("answered by %q, %v, want silence", got, err)
	}
	if s.lines.Load() != 1 || p.Swallowed() == 0 {
		t.Errorf("%d requests arrived, %d pieces swallowed", s.lines.Load(), p.Swallowed())
	}
	p.Set(faultproxy.Fault{})
	if got, err := c.say("b", 100*time.Millisecond); !timedOut(err) {
		t.Errorf("after a lost piece: %q, %v, want a connection that stays silent", got, err)
	}
	if got, err := dial(t, p).say("c", 5*time.Second); err != nil || got != "C" {
		t.Errorf("a new connection is answered by %q, %v", got, err)
	}
}

func TestDroppedRequestsDoNotArrive(t *testing.T) {
	s, p := start(t)
	c := dial(t, p)
	p.Set(faultproxy.Fault{DropRequests: true})
	if got, err := c.say("a", 100*time.Millisecond); !timedOut(err) {
		t.Errorf("answered by %q, %v, want silence", got, err)
	}
	if n := s.lines.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestOneConnectionAmongOthersIsLost(t *testing.T) {
	s, p := start(t)
	a, b, c := dial(t, p), dial(t, p), dial(t, p)
	p.Set(faultproxy.Fault{Lose: func(up bool, piece []byte) bool {
		return up && strings.Contains(string(piece), "request") || !up && strings.Contains(string(piece), "ANSWER")
	}})
	for _, line := range []string{"request", "more"} { // and what comes after it
		if got, err := a.say(line, 100*time.Millisecond); !timedOut(err) {
			t.Errorf("answered by %q, %v, want silence", got, err)
		}
		if got, err := b.say("x", 5*time.Second); err != nil || got != "X" {
			t.Errorf("another is answered by %q, %v", got, err)
		}
	}
	if got, err := c.say("answer", 100*time.Millisecond); !timedOut(err) {
		t.Errorf("answered by %q, %v, want silence", got, err)
	}
	if n := s.lines.Load(); n != 3 {
		t.Errorf("%d requests arrived, want 3", n)
	}
}

func TestAConnectionIsCutInTheMiddleOfAnAnswer(t *testing.T) {
	_, p := start(t)
	c := dial(t, p)
	p.Set(faultproxy.Fault{CutAfter: 3})
	if got, err := c.say("abcdef", 5*time.Second); err != io.EOF || got != "ABC" {
		t.Errorf("answered by %q, %v, want three bytes and the end", got, err)
	}
}

func TestConnectionsAreCutAndReset(t *testing.T) {
	_, p := start(t)
	for _, reset := range []bool{false, true} {
		c := dial(t, p)
		if _, err := c.say("a", 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if reset {
			p.Reset()
		} else {
			p.Cut()
		}
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err := c.in.ReadByte()
		if errors.Is(err, syscall.ECONNRESET) != reset || !reset && err != io.EOF {
			t.Errorf("reset %v: %v", reset, err)
		}
		if got, err := dial(t, p).say("b", 5*time.Second); err != nil || got != "B" {
			t.Errorf("a new connection is answered by %q, %v", got, err)
		}
	}
}

func TestRefusedConnectionsEnd(t *testing.T) {
	s, p := start(t)
	p.Set(faultproxy.Fault{Refuse: true})
	c := dial(t, p)
	if got, err := c.say("a", 5*time.Second); err == nil || timedOut(err) {
		t.Errorf("answered by %q, %v, want the end", got, err)
	}
	if n := s.lines.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	_, p := start(t)
	c := dial(t, p)
	p.Set(faultproxy.Fault{Delay: time.Hour})
	io.WriteString(c, "a\n")
	begin := time.Now()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(begin); d > 30*time.Minute {
		t.Errorf("it took %v", d)
	}
	if _, err := c.in.ReadByte(); err == nil {
		t.Error("the connection goes on")
	}
}

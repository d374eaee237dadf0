package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// goroutines returns those that are of this package or of its client.
func goroutines() (all []string) {
	buf := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "go-redis") || strings.Contains(g, "redisstore.(*") {
			all = append(all, g)
		}
	}
	return all
}

// Not parallel: it looks at all goroutines.
func TestNothingIsLeftAfterClose(t *testing.T) {
	r := servers.Redis(t)
	if left := goroutines(); len(left) > 0 {
		t.Fatalf("before: %s", left[0])
	}
	s := open(t, Config{Addrs: []string{r.Addr}})
	if err := everything(s, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch(t.Context(), func(store.Hint) {}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var left []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = goroutines(); len(left) == 0 {
			break
		}
	}
	for _, g := range left {
		t.Errorf("left: %s", g)
	}
	if n := len(s.conns.open); n != 0 {
		t.Errorf("%d connections are open", n)
	}
	await(t, func() bool { return !strings.Contains(r.Must("CLIENT", "LIST"), "cmd=psubscribe") })
}

// A server that is away ends neither a watch nor anything else.
func TestAWatchOutlivesItsServer(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	heard := make(chan string, 100)
	stop, err := s.Watch(t.Context(), func(h store.Hint) { heard <- h.Key })
	if err != nil {
		t.Fatal(err)
	}
	r.Kill()
	if _, err := newAsker(t, s, "k", hourly(1)).sendOne(1); err == nil {
		t.Error("a server that is away answers")
	}
	if _, err := s.Watch(t.Context(), func(store.Hint) {}); !errors.Is(err, store.ErrNotExecuted) {
		t.Errorf("a watch of a server that is away: %v", err)
	}
	time.Sleep(50 * time.Millisecond)
	r.Restart()
	r.Ready()
	next := func() string {
		select {
		case key := <-heard:
			return key
		case <-time.After(time.Minute):
			return "nothing"
		}
	}
	if key := next(); key != "" {
		t.Errorf("after the restart there is a hint of %q, want one of any key", key)
	}
	a := newAsker(t, s, "k", hourly(1))
	it := a.item(0)
	it.Cool = []store.Cool{{For: time.Minute}}
	if _, err := a.send(it); err != nil {
		t.Fatal(err)
	}
	if key := next(); key != "k" {
		t.Errorf("a hint of %q, want of k", key)
	}
	stop()
	r.Must("PUBLISH", hashOf("k"), "")
	select {
	case key := <-heard:
		t.Errorf("a hint of %q after stop", key)
	case <-time.After(50 * time.Millisecond):
	}
}

// What others say on our channels is a hint at most.
func TestForgedHintsAreHints(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	heard := make(chan string, 100)
	stop, err := s.Watch(t.Context(), func(h store.Hint) { heard <- h.Key })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	r.Must("PUBLISH", "gov:{}", "epoch 1 0: 3600000000 7")
	for _, channel := range []string{"gov:", "gov:{}", "gov:{a b}", "gov:{" + strings.Repeat("a", 37) + "}", "gov:k", "gov:{k}x", "gov:{k}"} {
		r.Must("PUBLISH", channel, strings.Repeat("cooldown", 10000))
	}
	select {
	case key := <-heard:
		if key != "k" || len(heard) > 0 {
			t.Errorf("a hint of %q, and %d more", key, len(heard))
		}
	case <-time.After(time.Minute):
		t.Error("no hint")
	}
	if a := newAsker(t, s, "k", hourly(1)).ask(1); a.Granted != 1 {
		t.Errorf("after a forged hint: %+v", a)
	}
}

// Subscriptions that are silent are asked whether they are there.
func TestADeadSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	_, r := one(t)
	p := through(t, r.Addr)
	s := open(t, Config{Addrs: []string{p.addr}})
	heard := make(chan string, 100)
	stop, err := s.Watch(t.Context(), func(h store.Hint) { heard <- h.Key })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	time.Sleep(quiet + quiet/2) // asked, and there
	if len(heard) > 0 {
		t.Errorf("a hint of %q, though nothing happened", <-heard)
	}
	p.silence()                              // nobody is told, and nothing is closed
	for _, want := range []string{"", "k"} { // some may have been missed; and then it hears again
		select {
		case key := <-heard:
			if key != want {
				t.Errorf("a hint of %q, want %q", key, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("a subscription that hears nothing is not replaced: no hint of %q", want)
		}
		r.Must("PUBLISH", "gov:{k}", "cooldown")
	}
}

func TestAServerThatTellsNoReplicationIDIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := one(t)
	mutate(t, s, "'master_replid:', 1", "'no_master_replid:', 1")
	if answer, err := newAsker(t, s, "k", hourly(1)).sendOne(1); !errors.Is(err, store.ErrNotExecuted) || answer.Granted != 0 {
		t.Errorf("%+v, %v", answer, err)
	}
}

// later reports whether s comes to say that it has heard of all until now.
func later(s *Store) bool {
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(time.Millisecond) {
		if s.HeardUntil().After(begun) {
			return true
		}
	}
	return false
}

// A subscription that hears nothing more says so, and one that is with another server
// than the one that executes is replaced.
func TestWhatIsHeardIsOfTheServerThatExecutes(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run("client of its own "+strconv.FormatBool(own), func(t *testing.T) {
			t.Parallel()
			_, r := one(t)
			other := servers.Redis(t)
			p := through(t, r.Addr)
			cfg := Config{Addrs: []string{p.addr}}
			if own {
				client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, ContextTimeoutEnabled: true})
				defer client.Close()
				cfg = Config{Client: client}
			}
			s := open(t, cfg)
			if !s.HeardUntil().IsZero() {
				t.Error("nobody watches, and something is heard")
			}
			heard := make(chan string, 100)
			stop, err := s.Watch(t.Context(), func(h store.Hint) { heard <- h.Key })
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if !later(s) {
				t.Fatal("it hears of nothing")
			}
			newAsker(t, s, "k", hourly(1)).ask(1)
			p.mu.Lock()
			p.to = other.Addr // as a name that means another server now
			p.mu.Unlock()
			r.Must("CLIENT", "KILL", "TYPE", "normal")
			switched := time.Now()
			if !own { // which finds out by itself
				await(t, func() bool {
					_, err := newAsker(t, s, "k", hourly(1)).sendOne(1)
					return err == nil
				})
			}
			for hinted := false; !hinted; time.Sleep(time.Millisecond) {
				until := s.HeardUntil() // before it is looked for
				select {
				case key := <-heard:
					if hinted = true; key != "" {
						t.Errorf("a hint of %q, want one of any key", key)
					}
				default:
					if until.After(switched) && own {
						t.Fatalf("it heard until %v after another server executes, of the one before", until.Sub(switched))
					}
					if time.Since(switched) > time.Minute {
						t.Fatal("the subscription stays with the server that was")
					}
				}
			}
			await(t, func() bool { return strings.Contains(other.Must("CLIENT", "LIST"), "cmd=p") })
			if !later(s) {
				t.Error("it hears of nothing from the server that is")
			}
			p.darken()
			begun := time.Now()
			for time.Since(begun) < quiet {
				time.Sleep(10 * time.Millisecond)
			}
			if s.HeardUntil().After(begun) {
				t.Error("it hears through a network that lets nothing pass")
			}
		})
	}
}

// A subscription answers, but is with another server than the one that executes, until
// it is made anew; or nobody knows, as the user may not ask.
func TestWhoMayHearAnotherServerDoesNotSayWhatIsHeard(t *testing.T) {
	t.Parallel()
	r, other := servers.Redis(t), servers.Redis(t)
	text, err := os.ReadFile("doc.go")
	if err != nil || !strings.Contains(string(text), "also +subscribe +pubsub|numsub,") {
		t.Errorf("doc.go does not say what it takes: %v", err)
	}
	for i, more := range [][]string{nil, {"+subscribe"}, {"+subscribe", "+pubsub|numsub"}} {
		rules := append([]string{"ACL", "SETUSER", "flyball" + strconv.Itoa(i), ">secret1"}, documentedACL(t)...)
		r.Must(append(rules, more...)...)
	}
	for _, tc := range []struct {
		name, user string
		first      string // the server of the first connection, which is the subscription's
		knows      bool
	}{
		{"one server", "", r.Addr, true},
		{"two servers", "", other.Addr, false},
		{"the user may not subscribe to a channel", "flyball0", r.Addr, false},
		{"the user may not ask who does", "flyball1", r.Addr, false},
		{"the user may do both", "flyball2", r.Addr, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var dials atomic.Int64
			options := &redis.Options{Addr: r.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true}
			if tc.user != "" {
				options.Username, options.Password = tc.user, "secret1"
			}
			options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dials.Add(1) == 1 {
					addr = tc.first
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			client := redis.NewClient(options)
			defer client.Close()
			s := open(t, Config{Client: client})
			stop, err := s.Watch(t.Context(), func(store.Hint) {})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if tc.knows && !later(s) {
				t.Error("it does not know what was heard")
			}
			for begun := time.Now(); !tc.knows && time.Since(begun) < 2*s.beat(); time.Sleep(time.Millisecond) {
				if until := s.HeardUntil(); !until.IsZero() {
					t.Fatalf("it says that it has heard until %v", until)
				}
			}
			if tc.first != r.Addr { // another subscription is with the other server
				await(t, func() bool { return !s.HeardUntil().IsZero() })
			}
		})
	}
}

// onDial calls f before each connection is made.
type onDial func()

func (f onDial) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		f()
		return next(ctx, network, addr)
	}
}
func (f onDial) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (f onDial) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// While a subscription is made anew, another server comes to execute: it may be with the
// one before.
func TestASubscriptionThatIsOvertakenIsMadeAnew(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Addrs: []string{servers.Redis(t).Addr}})
	var dials atomic.Int64
	s.client.(*redis.Client).AddHook(onDial(func() {
		if dials.Add(1) == 2 {
			s.executes("third")
		}
	}))
	stop, err := s.Watch(t.Context(), func(store.Hint) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	s.executes("first")
	s.executes("second")
	for begun := time.Now(); dials.Load() < 3; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d connections, want 3", dials.Load())
		}
	}
}

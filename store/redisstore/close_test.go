package redisstore

import (
	"context"
	"errors"
	"runtime"
	"strings"
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
	if err := everything(s); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch(t.Context(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var left []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
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
	stop, err := s.Watch(t.Context(), func(key string) { heard <- key })
	if err != nil {
		t.Fatal(err)
	}
	r.Kill()
	if _, err := newAsker(t, s, "k", hourly(1)).sendOne(1); err == nil {
		t.Error("a server that is away answers")
	}
	if _, err := s.Watch(t.Context(), func(string) {}); !errors.Is(err, store.ErrNotExecuted) {
		t.Errorf("a watch of a server that is away: %v", err)
	}
	time.Sleep(50 * time.Millisecond)
	r.Restart()
	r.Ready()
	next := func() string {
		select {
		case key := <-heard:
			return key
		case <-time.After(10 * time.Second):
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
	stop, err := s.Watch(t.Context(), func(key string) { heard <- key })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, channel := range []string{"gov:", "gov:{}", "gov:{a b}", "gov:{" + strings.Repeat("a", 37) + "}", "gov:k", "gov:{k}x", "gov:{k}"} {
		r.Must("PUBLISH", channel, strings.Repeat("cooldown", 10000))
	}
	select {
	case key := <-heard:
		if key != "k" || len(heard) > 0 {
			t.Errorf("a hint of %q, and %d more", key, len(heard))
		}
	case <-time.After(5 * time.Second):
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
	stop, err := s.Watch(t.Context(), func(key string) { heard <- key })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	time.Sleep(quiet + quiet/2) // asked, and there
	if len(heard) > 0 {
		t.Errorf("a hint of %q, though nothing happened", <-heard)
	}
	p.darken()
	time.Sleep(quiet / 2)
	p.mu.Lock()
	p.dark = false
	p.mu.Unlock()
	dark := through(t, r.Addr)
	_ = dark
	p.cut()
	select {
	case key := <-heard:
		if key != "" {
			t.Errorf("a hint of %q, want one of any key", key)
		}
	case <-time.After(5 * quiet):
		t.Error("the subscription does not come back")
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

func TestSlots(t *testing.T) {
	t.Parallel()
	if got := slotOf("123456789"); got != 0x31C3%slots {
		t.Errorf("the slot of 123456789 is %d, want %d", got, 0x31C3%slots)
	}
	c := servers.Cluster(t, 10*time.Second)[0]
	client := redis.NewClient(&redis.Options{Addr: c.Addr})
	defer client.Close()
	pipe := client.Pipeline()
	for _, name := range witnesses() {
		pipe.ClusterKeySlot(context.Background(), name)
	}
	cmds, err := pipe.Exec(context.Background())
	if err != nil || len(cmds) != slots {
		t.Fatal(len(cmds), err)
	}
	for slot, cmd := range cmds {
		if got := cmd.(*redis.IntCmd).Val(); got != int64(slot) {
			t.Fatalf("%s is in slot %d, want %d", witnesses()[slot], got, slot)
		}
	}
}

// A subscription that hears nothing more says so, and one that is with another server
// than the one that executes is replaced.
func TestWhatIsHeardIsOfTheServerThatExecutes(t *testing.T) {
	t.Parallel()
	_, r := one(t)
	other := servers.Redis(t)
	p := through(t, r.Addr)
	s := open(t, Config{Addrs: []string{p.addr}})
	if !s.HeardUntil().IsZero() {
		t.Error("nobody watches, and something is heard")
	}
	heard := make(chan string, 100)
	stop, err := s.Watch(t.Context(), func(key string) { heard <- key })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	later := func() bool {
		begun := time.Now()
		for time.Since(begun) < 10*time.Second {
			if s.HeardUntil().After(begun) {
				return true
			}
			time.Sleep(time.Millisecond)
		}
		return false
	}
	if !later() {
		t.Fatal("it hears of nothing")
	}
	newAsker(t, s, "k", hourly(1)).ask(1)
	p.mu.Lock()
	p.to = other.Addr // as a name that means another server now
	p.mu.Unlock()
	r.Must("CLIENT", "KILL", "TYPE", "normal")
	await(t, func() bool {
		_, err := newAsker(t, s, "k", hourly(1)).sendOne(1)
		return err == nil
	})
	select {
	case key := <-heard:
		if key != "" {
			t.Errorf("a hint of %q, want one of any key", key)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the subscription stays with the server that was")
	}
	await(t, func() bool { return strings.Contains(other.Must("CLIENT", "LIST"), "cmd=p") })
	if !later() {
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
}

func TestWhoMayHearAnotherServerDoesNotSayWhatIsHeard(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	s := open(t, Config{Client: client})
	stop, err := s.Watch(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	time.Sleep(50 * time.Millisecond)
	if !s.HeardUntil().IsZero() {
		t.Error("of a client of its own, it is known what was heard")
	}
}

package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
)

// testTTL is short, since some tests wait for it.
const testTTL = 2 * time.Second

// open returns a Store of cfg that is closed with the test.
func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	if cfg.TTL == 0 {
		cfg.TTL = testTTL
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// one returns a Store of a server of its own, under which nothing was used yet.
func one(t testing.TB, options ...string) (*Store, *servers.RedisServer) {
	t.Helper()
	r := servers.Redis(t, options...)
	s := open(t, Config{Addrs: []string{r.Addr}})
	if err := s.AssumeUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, r
}

// mutate has s use a script in which old is new: mostly one that is wrong, which a
// test has to find out.
func mutate(t testing.TB, s *Store, old, new string) {
	t.Helper()
	if n := strings.Count(s.script.text, old); n != 1 {
		t.Fatalf("the script has %q %d times", old, n)
	}
	s.script = newScript(strings.Replace(s.script.text, old, new, 1))
}

// hourly is a limit whose window goes on for longer than a test takes.
func hourly(quota int64) store.Limit {
	l := store.Limit{Kind: store.Window, Quota: quota, Per: time.Hour}
	for time.Duration(time.Now().UnixNano())%l.Per > l.Per-5*time.Minute {
		l.Per += 7 * time.Minute
	}
	return l
}

// asker is a node that asks for permits of one key.
type asker struct {
	t     testing.TB
	s     *Store
	node  store.Node
	key   string
	limit store.Limit

	further []store.Limit // beside limit
	seq     uint64
	told    map[string]string // the epochs that it was told last, by key
}

func newAsker(t testing.TB, s *Store, key string, l store.Limit) *asker {
	return &asker{t: t, s: s, node: store.NewNode(), key: key, limit: l, told: make(map[string]string)}
}

func (a *asker) item(want int64) store.Item {
	a.seq++
	return store.Item{Key: a.key, Seq: a.seq, Limits: append([]store.Limit{a.limit}, a.further...), Version: 1, Want: want, Epoch: a.told[a.key]}
}

func (a *asker) send(it store.Item) (store.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	as, err := a.s.Exchange(ctx, a.node, []store.Item{it})
	if err != nil {
		return store.Answer{}, err
	}
	if !as[0].Stale {
		a.told[it.Key] = as[0].Epoch
	}
	return as[0], nil
}

func (a *asker) ask(want int64) store.Answer {
	a.t.Helper()
	it := a.item(want)
	answer, err := a.send(it)
	for range 10 { // the server may have been away
		if err == nil || errors.Is(err, store.ErrInvalid) {
			break
		}
		time.Sleep(20 * time.Millisecond)
		answer, err = a.send(it)
	}
	if err != nil {
		a.t.Fatalf("Exchange: %v", err)
	}
	return answer
}

// drain takes what there is.
func (a *asker) drain() (sum int64) {
	a.t.Helper()
	for idle := 0; idle < 4; idle++ {
		answer := a.ask(a.limit.Quota)
		if sum += answer.Granted; answer.Granted > 0 || answer.RetryAfter < 10*time.Millisecond {
			idle = -1 // another node is expected before it
		}
		if answer.Granted == 0 && answer.RetryAfter > time.Second {
			break
		}
		time.Sleep(min(answer.RetryAfter, 5*time.Millisecond))
	}
	return sum
}

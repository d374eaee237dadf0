package redisstore

import (
	"context"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
)

// believesAll is a script that takes for unused what the server does not have, and
// believes whatever it has.
func believesAll(t testing.TB, s *Store) {
	mutate(t, s, "local fresh = not ours or back > 0 or not h.v", "local fresh = not h.v")
	mutate(t, s, "lost = witness.l\n", "lost = 0\n")
	mutate(t, s, "local deleted = (current", "local deleted = false and (current")
}

// losses are the ways in which a server of ours can lose what was granted. Each
// returns the Store to ask afterwards.
var losses = []struct {
	name    string
	options []string
	lose    func(t *testing.T, r *servers.RedisServer, s *Store) *Store
}{
	{"restart", nil, func(t *testing.T, r *servers.RedisServer, s *Store) *Store {
		r.Kill()
		r.Restart()
		r.Ready()
		return s
	}},
	{"restart from an old file", nil, func(t *testing.T, r *servers.RedisServer, s *Store) *Store {
		r.Kill()
		r.Restart()
		r.Ready()
		return s
	}},
	{"FLUSHALL", nil, func(t *testing.T, r *servers.RedisServer, s *Store) *Store {
		r.Must("FLUSHALL")
		return s
	}},
	{"eviction of a key", []string{"--maxmemory-policy", "volatile-lru"}, evict},
	{"eviction of any key", []string{"--maxmemory-policy", "allkeys-random"}, evict},
}

// evict fills the memory until the server has to let the key go.
func evict(t *testing.T, r *servers.RedisServer, s *Store) *Store {
	r.Must("CONFIG", "SET", "maxmemory", "3mb")
	for i := 0; r.Must("EXISTS", hashOf("k")) == "1"; i++ {
		if i > 20000 {
			t.Fatal("the key is not evicted")
		}
		r.Do("SETEX", "filler"+strconv.Itoa(i), "1000", strings.Repeat("x", 10000))
	}
	r.Must("CONFIG", "SET", "maxmemory", "0")
	return s
}

func TestLostStateGrantsNothingTwice(t *testing.T) {
	t.Parallel()
	for _, loss := range losses {
		for _, broken := range []bool{false, true} {
			name := loss.name
			if broken {
				name += " control"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, r := one(t, loss.options...)
				if broken {
					believesAll(t, s)
				}
				a := newAsker(t, s, "k", hourly(100))
				a.ask(0)
				if strings.Contains(name, "file") {
					r.Must("SAVE") // nothing is granted yet
				}
				before := a.drain()
				epoch := a.ask(0).Epoch
				a.s = loss.lose(t, r, s)
				if a.ask(0).Epoch == epoch && !broken {
					t.Error("the epoch is the one from before")
				}
				sum := before + a.drain()
				t.Logf("%d of 100 were granted before, %d with what came after", before, sum)
				if before != 100 || (sum > 100) != broken {
					t.Errorf("%d granted before, %d together, of 100", before, sum)
				}
			})
		}
	}
}

// The hash of a key is deleted by hand. Who was told its epoch says so, be he the first
// to come or not, and the others hear of it, once.
func TestADeletedKeyIsLost(t *testing.T) {
	t.Parallel()
	for _, newcomer := range []bool{false, true} {
		for _, broken := range []bool{false, true} {
			t.Run("newcomer first "+strconv.FormatBool(newcomer)+", control "+strconv.FormatBool(broken), func(t *testing.T) {
				t.Parallel()
				s, r := one(t)
				if broken {
					mutate(t, s, "local deleted = (current", "local deleted = false and (current")
				}
				told := map[*asker]string{}
				ask := func(a *asker, want int64) int64 {
					t.Helper()
					it := a.item(want)
					it.Epoch = told[a]
					answer, err := a.send(it)
					if err != nil {
						t.Fatal(err)
					}
					told[a] = answer.Epoch
					return answer.Granted
				}
				a, b := newAsker(t, s, "k", hourly(100)), newAsker(t, s, "k", hourly(100))
				sum := ask(a, 0) + ask(b, 50) + ask(a, 50)
				before := told[a]
				r.Must("DEL", hashOf("k"))
				c := newAsker(t, s, "k", hourly(100))
				if newcomer {
					ask(c, 10)
				}
				if got := ask(a, 10); sum != 100 || (got > 0) != broken || !broken && told[a] == before {
					t.Errorf("%d of 100 granted, then the key is deleted, and %d more; the epoch was %s and is %s", sum, got, before, told[a])
				}
				epoch := told[a]
				if got := ask(b, 10) + ask(c, 10) + ask(a, 10); !broken && (got > 0 || told[a] != epoch || told[b] != epoch || told[c] != epoch) {
					t.Errorf("then %d more, and epochs %v, want nothing and %s", got, told, epoch)
				}
			})
		}
	}
}

// A replica that has not heard of the last grants becomes the primary.
func TestLostWritesGrantNothingTwice(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		t.Run("control "+strconv.FormatBool(broken), func(t *testing.T) {
			t.Parallel()
			primary := servers.Redis(t)
			link := through(t, primary.Addr)
			host, port, _ := strings.Cut(link.addr, ":")
			replica := servers.Redis(t, "--replicaof", host+" "+port)
			await(t, func() bool { return strings.Contains(replica.Must("INFO", "replication"), "link_status:up") })
			s := open(t, Config{Addrs: []string{primary.Addr}}) // a first replica gives the primary another name
			if err := s.AssumeUnused(t.Context()); err != nil {
				t.Fatal(err)
			}
			newAsker(t, s, "k", hourly(100)).ask(1) // the replica has the hash
			await(t, func() bool { return replica.Must("EXISTS", hashOf("k")) == "1" })
			link.darken()
			a := newAsker(t, s, "k", hourly(100))
			before := 1 + a.drain()
			replica.Must("REPLICAOF", "NO", "ONE")
			a.s = open(t, Config{Addrs: []string{replica.Addr}})
			if broken {
				believesAll(t, a.s)
			}
			sum := before + a.drain()
			if before != 100 || (sum > 100) != broken {
				t.Errorf("%d granted before, %d together, of 100", before, sum)
			}
		})
	}
}

// The first primary comes back, with what it knew, and has not heard of what was
// granted meanwhile. Its process is the same.
func TestAPrimaryThatComesBackIsNotBelieved(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		t.Run("control "+strconv.FormatBool(broken), func(t *testing.T) {
			t.Parallel()
			first := servers.Redis(t)
			second := servers.Replica(t, first)
			on := func(r *servers.RedisServer, key string) *asker {
				s := open(t, Config{Addrs: []string{r.Addr}})
				if err := s.AssumeUnused(t.Context()); err != nil { // so that it grants at once
					t.Fatal(err)
				}
				if broken {
					mutate(t, s, "call('INFO', 'replication')", "string.gsub(call('INFO', 'server'), 'run_id', 'master_replid')")
					_, after, _ := strings.Cut(r.Must("INFO", "server"), "run_id:")
					r.Must("HSET", witness, "f", after[:40])
				}
				return newAsker(t, s, key, hourly(100))
			}
			a := on(first, "k")
			sum := a.ask(1).Granted
			await(t, func() bool { return second.Must("EXISTS", hashOf("k")) == "1" })
			second.Must("REPLICAOF", "NO", "ONE")
			first.Must("REPLICAOF", "127.0.0.1", "1") // it never hears of the other
			b := on(second, "k2")
			other := b.drain()
			first.Must("REPLICAOF", "NO", "ONE")
			a.key = "k2"
			after := a.drain()
			if sum != 1 || other != 100 || (after > 0) != broken {
				t.Errorf("%d and %d granted of 100, and %d by the first again", sum, other, after)
			}
		})
	}
}

// A key that is new on a server that has been there for longer than a Per is unused.
func TestANewKeyIsUnusedOnAnOldServer(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t)
	s := open(t, Config{Addrs: []string{r.Addr}})
	l := store.Limit{Quota: 10, Per: 300 * time.Millisecond, Transit: -1}
	if a := newAsker(t, s, "first", l).ask(1); a.Granted != 0 || a.RetryAfter <= 0 {
		t.Errorf("a key of a server that nobody has seen before has %d permits", a.Granted)
	}
	time.Sleep(l.Per + l.Per/10)
	if a := newAsker(t, s, "second", l).ask(1); a.Granted != 1 {
		t.Errorf("a new key has %d permits, a Per after the server was seen", a.Granted)
	}
	if got := newAsker(t, s, "third", hourly(5)).drain(); got != 0 {
		t.Errorf("a new key of a longer Per has %d permits", got)
	}
	if err := s.AssumeUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := newAsker(t, s, "fourth", hourly(5)).drain(); got != 5 {
		t.Errorf("of a key that is said to be unused, %d of 5 are granted", got)
	}
	if got := newAsker(t, s, "third", hourly(5)).drain(); got != 0 {
		t.Errorf("of a key that was there before it was said, %d are granted", got)
	}
}

// For SplitBrainBound after a failover the old primary may go on.
func TestNothingIsGrantedWithinTheSplitBrainBound(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	l := store.Limit{Quota: 10, Per: 100 * time.Millisecond}
	newAsker(t, s, "k", l).drain()
	r.Must("FLUSHALL")
	s.bound = 700 * time.Millisecond
	a := newAsker(t, s, "k", l)
	for start := time.Now(); a.ask(1).Granted == 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("nothing is granted any more")
		}
	}
	lost, _ := strconv.ParseInt(r.Must("HGET", witness, "b"), 10, 64)
	clock := strings.Fields(r.Must("TIME"))
	sec, _ := strconv.ParseInt(clock[0], 10, 64)
	usec, _ := strconv.ParseInt(clock[1], 10, 64)
	if d := time.Duration(sec*1e6+usec-lost) * time.Microsecond; d < s.bound+l.Per {
		t.Errorf("granted %v after the loss, want the bound of %v and a Per of %v", d, s.bound, l.Per)
	}
}

// await waits until it is so.
func await(t testing.TB, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come about")
		}
	}
}

// A key was evicted some time ago; since then a hash that somebody makes who was told no
// epoch has to look new all the same, or a deletion before it is not found.
func TestADeletedKeyIsLostAfterAnEviction(t *testing.T) {
	t.Parallel()
	s, r := one(t, "--maxmemory-policy", "volatile-lru")
	newAsker(t, s, "k", hourly(100)).ask(1)
	evict(t, r, s)
	newAsker(t, s, "k", hourly(100)).ask(1) // the witness knows
	for per := time.Second; per < time.Minute; per *= 2 {
		l := store.Limit{Kind: store.Sliding, Quota: 10, Per: per, Transit: -1}
		key := "k" + per.String()
		time.Sleep(per + per/2)
		a := newAsker(t, s, key, l)
		begun, before := time.Now(), int64(0)
		for before == 0 && time.Since(begun) < per/4 { // a segment may be about to end
			before = a.ask(10).Granted
		}
		r.Must("DEL", hashOf(key))
		newAsker(t, s, key, l).ask(1)
		after := a.ask(9).Granted
		if before == 0 || time.Since(begun) > per/2 { // which proves nothing: with more time for it
			continue
		}
		if after != 0 {
			t.Errorf("%d granted, then the key is deleted, and %d more", before, after)
		}
		return
	}
	t.Error("nothing is granted, or the server takes half a minute for a few requests")
}

// The clock of the server was ahead when the witness was written.
func TestADeletedKeyIsLostWhenTheClockWasAhead(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	b, _ := strconv.ParseInt(r.Must("HGET", witness, "b"), 10, 64)
	r.Must("HSET", witness, "b", strconv.FormatInt(b+3600e6, 10))
	a := newAsker(t, s, "k", hourly(100))
	a.ask(50)
	first := a.told["k"]
	r.Must("DEL", hashOf("k"))
	a.ask(10)
	second := a.told["k"]
	r.Must("DEL", hashOf("k"))
	a.ask(10)
	if first == second || second == a.told["k"] {
		t.Errorf("the epochs are %s, %s and %s", first, second, a.told["k"])
	}
}

// Within SplitBrainBound the limits become others.
func TestOtherLimitsWithinTheSplitBrainBoundGrantNothing(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	s.bound = 1500 * time.Millisecond
	r.Must("FLUSHALL")
	a := newAsker(t, s, "k", store.Limit{Quota: 10, Per: time.Second})
	begun := time.Now()
	a.ask(1)
	a.limit.Per = 100 * time.Millisecond
	for {
		it := a.item(1)
		it.Version = 2
		answer, err := a.send(it)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Granted > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if d := time.Since(begun); d < s.bound {
		t.Errorf("granted %v after the loss, want the bound of %v and a Per", d, s.bound)
	}
}

// Somebody says that he knows of the largest generation there may be.
func TestTheLargestGenerationHarmsNobody(t *testing.T) {
	t.Parallel()
	s, _ := one(t)
	bad := newAsker(t, s, "k", hourly(10))
	it := bad.item(0)
	it.Known = []store.Cooldown{{Scope: "a", Left: time.Minute, Gen: 1 << 52}}
	if _, err := bad.send(it); err != nil {
		t.Fatal(err)
	}
	a := newAsker(t, s, "k", hourly(10))
	it = a.item(0)
	it.Cool = []store.Cool{{Scope: "b", For: time.Minute}}
	answer, err := a.send(it)
	if err != nil {
		t.Fatal(err)
	}
	it = a.item(1)
	it.Seen = answer.Gen
	it.Known = append(it.Known, answer.Cooldowns...)
	if _, err = a.send(it); err != nil {
		t.Error(err)
	}
}

// Two who knew another server, as before a failover, find a key absent, one after the
// other: what the first has made was deleted when the second comes.
func TestAKeyThatIsDeletedAfterAFailoverIsLost(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	a, b := newAsker(t, s, "k", hourly(100)), newAsker(t, s, "k", hourly(100))
	a.told["k"], b.told["k"] = "0123456789abcdef-1", "0123456789abcdef-1"
	before := a.drain()
	r.Must("DEL", hashOf("k"))
	sum := before + b.ask(1).Granted + a.drain()
	if before != 100 || sum > 101 {
		t.Errorf("%d of 100 granted, and %d with what came after the key was deleted, and asked for by who had not seen it", before, sum)
	}
}

// The witness alone is evicted, so that what the server has seems to begin then. Who
// was told an epoch before has seen the key: if it is absent, or was made since, it was
// deleted. What somebody says to be unused since is unused.
func TestADeletedKeyIsLostAfterTheWitness(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		newcomer time.Duration // before the witness is gone, or after; 0: none
		unused   bool
	}{{"", 0, false}, {"newcomer before", -1, false}, {"newcomer after", 1, false}, {"said to be unused", 0, true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, r := one(t)
			a := newAsker(t, s, "k", hourly(100))
			before := a.drain()
			come := func() { newAsker(t, s, "k", hourly(100)).ask(1) }
			if tc.newcomer < 0 {
				r.Must("DEL", hashOf("k"))
				come()
			}
			r.Must("DEL", witness)
			newAsker(t, s, "other", hourly(100)).ask(1)
			if tc.unused {
				if err := s.AssumeUnused(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else { // as if that was long ago
				long := strconv.FormatInt(time.Now().Add(-24*time.Hour).UnixMicro(), 10)
				r.Must("HSET", witness, "b", long, "l", long)
			}
			if tc.newcomer >= 0 {
				r.Must("DEL", hashOf("k"))
			}
			if tc.newcomer > 0 {
				come()
			}
			epoch := a.told["k"]
			if after := a.drain(); before != 100 || (after > 0) != tc.unused {
				t.Errorf("%d granted, then the key is deleted, and %d more, of 100", before, after)
			}
			if a.told["k"] == epoch {
				t.Error("the epoch is the one from before")
			}
			b := newAsker(t, s, "k", hourly(100))
			b.told["k"] = epoch
			b.ask(1)
			if a.told["k"] != b.told["k"] {
				t.Errorf("the loss is found twice: the epochs are %s and %s", a.told["k"], b.told["k"])
			}
		})
	}
}

// noted is a Store that remembers the epochs that it told.
type noted struct {
	*Store
	mu     sync.Mutex
	epochs map[string]string // by key; guarded by mu
}

func (n *noted) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	answers, err := n.Store.Exchange(ctx, node, items)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range answers {
		if a.Err == nil {
			n.epochs[a.Key] = a.Epoch
		}
	}
	return answers, err
}

func (n *noted) all() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.epochs)
}

// A loss of many keys at once is told of once, and the next one again.
func TestALossOfManyKeysIsToldOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string][]string{"failover": {"DEBUG", "CHANGE-REPL-ID"}, "FLUSHALL": {"FLUSHALL"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := one(t, "--enable-debug-command", "yes")
			n := &noted{Store: s, epochs: make(map[string]string)}
			var told atomic.Int64
			shared, err := store.NewSyncer(store.SyncerConfig{Store: n, OnEvent: func(e event.Event) {
				if e.Kind == event.StoreLost {
					told.Add(1)
				}
			}, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer shared.Close()
			const keys = 5
			var shares []*store.Share
			for i := range keys {
				share, err := shared.Share(store.ShareConfig{Name: t.Name() + strconv.Itoa(i), Limits: []store.Limit{{Quota: 10, Per: 100 * time.Millisecond}}})
				if err != nil {
					t.Fatal(err)
				}
				shares = append(shares, share)
			}
			// use has all keys exchanged until each has another epoch than it had.
			use := func(old map[string]string) {
				t.Helper()
				await(t, func() bool {
					others := 0
					for _, share := range shares {
						if now := time.Now(); share.Wait(now, "", 1) == 0 {
							share.Take(now, "", 1)
						}
					}
					for key, epoch := range n.all() {
						if epoch != old[key] {
							others++
						}
					}
					return others == keys
				})
			}
			use(nil)
			for losses := range int64(3) {
				old := n.all()
				r.Must(lose...)
				use(old)
				await(t, func() bool { return told.Load() > losses })
				time.Sleep(100 * time.Millisecond) // what was answered last is told
				if told.Load() != losses+1 {
					t.Fatalf("told %d times of %d losses: epochs %v, then %v", told.Load(), losses+1, old, n.all())
				}
			}
		})
	}
}

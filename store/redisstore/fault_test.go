package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/store"
)

// The reply gets lost on its way: whoever sent the request sends it again, by the same
// number, and the quota is charged once.
func TestASwallowedReplyIsChargedOnce(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string][2]string{
		"as it is":                    {},
		"control, has no numbers":     {"elseif seq == n.seq then", "elseif false then"},
		"control, grants on a repeat": {"granted = n[11], valid", "granted = n[11] + 1, valid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, r := one(t)
			p := through(t, r.Addr)
			s := open(t, Config{Addrs: []string{p.addr}})
			if broken[0] != "" {
				mutate(t, s, broken[0], broken[1])
			}
			a := newAsker(t, s, "k", hourly(100))
			a.ask(0)
			var mu sync.Mutex
			swallow, swallowed := false, 0
			p.onReply(func(text []byte, to net.Conn) bool {
				mu.Lock()
				defer mu.Unlock()
				if swallow && strings.Contains(string(text), " gov:{k} ") {
					swallow = false
					swallowed++
					return false
				}
				to.Write(text)
				return true
			})
			sum := int64(0)
			for range 30 {
				it := a.item(2)
				mu.Lock()
				swallow = true
				mu.Unlock()
				answer, err := a.send(it)
				if err == nil || definite(err) {
					t.Fatalf("a reply that is lost: %v", err)
				}
				for err != nil {
					answer, err = a.send(it)
				}
				sum += answer.Granted
			}
			rest := newAsker(t, s, "k", a.limit).drain()
			if swallowed != 30 || (sum+rest != 100 || sum != 60) != (broken[0] != "") {
				t.Errorf("%d replies swallowed: %d granted, and then %d of 100", swallowed, sum, rest)
			}
		})
	}
}

func TestAFlushedScriptIsLoadedAgain(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		s, r := one(t)
		if broken { // what is loaded is not the script
			s.script = &script{text: "return redis.error_reply('ERR no script')", sha: exchangeScript.sha}
		}
		stop := make(chan struct{})
		var work sync.WaitGroup
		var flushes atomic.Int64
		work.Go(func() {
			for tick := time.NewTicker(10 * time.Millisecond); ; {
				select {
				case <-stop:
					tick.Stop()
					return
				case <-tick.C:
					r.Do("SCRIPT", "FLUSH")
					flushes.Add(1)
				}
			}
		})
		a := newAsker(t, s, "k", hourly(1000))
		failed := 0
		for flushes.Load() < 30 {
			var items []store.Item
			for _, key := range []string{"k", "l", "m"} {
				it := a.item(1)
				it.Key = key
				items = append(items, it)
			}
			if as, err := s.Exchange(t.Context(), a.node, items); err != nil || as[0].Err != nil || as[1].Err != nil || as[2].Err != nil {
				failed++
			}
		}
		close(stop)
		work.Wait()
		if (failed > 0) != broken {
			t.Errorf("control %v: %d of %d exchanges failed", broken, failed, a.seq/3)
		}
	}
}

// An answer that is to something else is an error, and its connection is not used
// again.
func TestARepliesOfOthersAreNotTaken(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} { // the control keeps the connection
		_, r := one(t)
		p := through(t, r.Addr)
		s := open(t, Config{Addrs: []string{p.addr}})
		a := newAsker(t, s, "k", hourly(100))
		a.ask(1)
		var mu sync.Mutex
		before := map[net.Conn][]byte{}
		p.onReply(func(text []byte, to net.Conn) bool { // each gets that to the one before
			mu.Lock()
			defer mu.Unlock()
			last := before[to]
			if !strings.Contains(string(text), " gov:{k} ") {
				to.Write(text)
				return true
			}
			if last == nil {
				last = text
			}
			before[to] = append([]byte(nil), text...)
			to.Write(last)
			return true
		})
		if _, err := a.send(a.item(1)); err != nil {
			t.Fatal(err)
		}
		if kept {
			s.conns.mu.Lock()
			clear(s.conns.open)
			s.conns.mu.Unlock()
		}
		if answer, err := a.send(a.item(1)); !errors.Is(err, errForeign) || answer.Granted != 0 {
			t.Errorf("the answer to another request is taken: %+v, %v", answer, err)
		}
		if _, err := a.send(a.item(1)); (err != nil) != kept {
			t.Errorf("kept %v: the next request: %v", kept, err)
		}
	}
	for _, change := range [][2]string{
		{"me, KEYS[1], seq, epoch", "'another', KEYS[1], seq, epoch"},
		{"me, KEYS[1], seq, epoch", "me, 'gov:{other}', seq, epoch"},
		{"me, KEYS[1], seq, epoch", "me, KEYS[1], '00000000000000000009', epoch"},
		{"' ' .. KEYS[1] .. ' ' .. node", "' ' .. KEYS[1] .. ' n:another'"},
		{"' ' .. KEYS[1] .. ' ' .. node", "' gov:{other} ' .. node"},
		{"'=' .. pack('<I7I7I7I4I2', seq, gen", "'=' .. pack('<I7I7I7I4I2', 9, gen"},
	} {
		s, _ := one(t)
		a := newAsker(t, s, "k", hourly(100))
		if strings.Contains(change[0], "..") { // of the short way
			a.ask(1)
		}
		mutate(t, s, change[0], change[1])
		if answer, err := a.sendOne(1); !errors.Is(err, errForeign) || answer.Granted != 0 {
			t.Errorf("a script that says %s: %+v, %v", change[1], answer, err)
		}
	}
}

func (a *asker) sendOne(want int64) (store.Answer, error) { return a.send(a.item(want)) }

// A server that is paused executes later what it has been sent, when its sender has
// given up and repeats it.
func TestAPausedServerGrantsOnce(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	a := newAsker(t, s, "k", hourly(10))
	a.ask(0)
	r.Must("CLIENT", "PAUSE", "700", "ALL")
	it := a.item(4)
	tries := 0
	var answer store.Answer
	for err := error(context.DeadlineExceeded); err != nil; tries++ {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		var as []store.Answer
		if as, err = s.Exchange(ctx, a.node, []store.Item{it}); err == nil {
			answer = as[0]
		} else if definite(err) || !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
			t.Fatalf("while the server is paused: %v", err)
		}
		cancel()
	}
	if rest := newAsker(t, s, "k", a.limit).drain(); answer.Granted != 4 || rest != 6 || tries < 3 {
		t.Errorf("%d granted after %d tries, and then %d of 10", answer.Granted, tries, rest)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// When there is no memory left, nothing is granted, and nothing is lost.
func TestAServerWithoutMemoryGrantsNothing(t *testing.T) {
	t.Parallel()
	s, r := one(t, "--maxmemory-policy", "noeviction")
	a := newAsker(t, s, "k", hourly(10))
	a.ask(1)
	r.Must("CONFIG", "SET", "maxmemory", "1")
	if answer, err := a.sendOne(1); !errors.Is(err, store.ErrNotExecuted) || answer.Granted != 0 {
		t.Errorf("without memory: %+v, %v", answer, err)
	}
	r.Must("CONFIG", "SET", "maxmemory", "0")
	if got := a.drain(); got != 9 {
		t.Errorf("%d are left of 9", got)
	}
}

// Times go on from the latest, when the clock of the server goes back; when it was
// wrong by more than an hour, what is there is not believed, and does not stand still
// for years.
func TestAClockThatWasWrong(t *testing.T) {
	t.Parallel()
	s, _ := one(t)
	ahead := func(by string) *Store {
		o := open(t, s.cfg)
		mutate(t, o, "local now = clock[1] * 1000000 + clock[2]", "local now = clock[1] * 1000000 + clock[2] + "+by)
		return o
	}
	l := store.Limit{Kind: store.Window, Quota: 10, Per: time.Second}
	newAsker(t, ahead("60000000"), "a", l).drain()
	if got := newAsker(t, s, "a", l).drain(); got != 0 {
		t.Errorf("%d granted of 10 that were granted by a clock a minute ahead", got)
	}
	l.Per = 2 * time.Second
	wrong := newAsker(t, ahead("86400000000"), "b", l)
	wrong.drain()
	it := wrong.item(0)
	it.Cool = []store.Cool{{Scope: "tenant:x", For: time.Minute}}
	wrong.send(it)
	begun := time.Now()
	if got := newAsker(t, s, "b", l).drain(); got != 0 && time.Since(begun) < l.Per {
		t.Errorf("%d granted at once by a clock that was a day ahead", got)
	}
	a := newAsker(t, s, "b", l)
	await(t, func() bool { return a.ask(1).Granted == 1 })
	cds := newAsker(t, s, "b", l).ask(0).Cooldowns
	if len(cds) != 1 || cds[0].Left > time.Minute || cds[0].Left < 50*time.Second {
		t.Errorf("of a cooldown of a minute there is %+v", cds)
	}
}

func TestTooManyNodesAreRefused(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	mutate(t, s, "if not n and count >= MOSTNODES or", "if not n and count >= 3 or")
	for range 3 {
		newAsker(t, s, "k", hourly(10)).ask(1)
	}
	if _, err := newAsker(t, s, "k", hourly(10)).sendOne(1); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("one node too many: %v", err)
	}
	time.Sleep(testTTL + testTTL/10)
	newAsker(t, s, "k", hourly(10)).ask(1)
	if n := strings.Count(r.Must("HKEYS", hashOf("k")), "n:"); n != 1 {
		t.Errorf("%d nodes are kept, of which one lives", n)
	}
}

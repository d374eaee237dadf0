package limiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// TestSharedWakesAsManyAsThereIsRoomFor has 1000 keys wait for the room that one takes:
// who ends asks no more than who comes next, and the next one's turn by time costs as
// little.
func TestSharedWakesAsManyAsThereIsRoomFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &attentive{Concurrency: newHeld(t, ConcurrencyConfig{Limit: 1, AskAgain: time.Hour, MaxKeys: 1})}
		s := newShared(t, SharedConfig{Limiters: []Limiter{l}, MaxQueue: 1000, MaxWait: -1})
		s.Allow("first", 1)
		var all []*Reservation
		for i := range 1000 {
			all = append(all, s.Reserve(fmt.Sprint(i), 1))
		}
		last := "first"
		for i, r := range all[:100] {
			l.asked = 0
			s.Release(last, 1)
			if r.Err() != nil || l.asked > 4 {
				t.Fatalf("call %d: %v; asked %d times for one that was admitted", i, r.Err(), l.asked)
			}
			last = fmt.Sprint(i)
		}
		for range 3 { // nobody ends: it is the first alone who asks again
			l.asked = 0
			time.Sleep(time.Hour + time.Minute)
			if l.asked > 4 {
				t.Errorf("asked %d times in an hour", l.asked)
			}
		}
	})
}

// roomModel is a limiter under test, and the same one again for the model.
func roomModel(t *testing.T, r *rand.Rand) (a, b Limiter) {
	const ms = time.Millisecond
	keys, limit := 1+r.IntN(3), 2+r.IntN(3)
	d, shape := time.Duration(4+r.IntN(30))*ms, r.IntN(5)
	of := func() Limiter {
		switch shape {
		case 0:
			return newBucket(t, BucketConfig{Rate: 100, Burst: limit, MaxKeys: keys})
		case 1:
			return newFixedWindow(t, FixedWindowConfig{Limit: limit, Period: d, MaxKeys: keys})
		case 2:
			l, err := NewSlidingLog(SlidingLogConfig{Limit: limit, Window: d, MaxKeys: keys})
			if err != nil {
				t.Fatal(err)
			}
			return l
		case 3: // some keys have another limiter
			return newByKey(t, ByKeyConfig{
				Keys:   map[string]Limiter{"1": newHeld(t, ConcurrencyConfig{Limit: limit, AskAgain: time.Hour, MaxKeys: 1})},
				Others: newHeld(t, ConcurrencyConfig{Limit: limit, AskAgain: time.Hour, MaxKeys: keys}),
			})
		}
		return newHeld(t, ConcurrencyConfig{Limit: limit, AskAgain: time.Hour, MaxKeys: keys})
	}
	return of(), of()
}

// TestSharedWithLittleRoomIsItsModel has more keys than there is room for, in several
// limiters at once, and limits of the whole. After every step nobody waits who could go,
// and those who went are those whose turn it was: a model says so that asks everybody
// each time. Of limiters that forget keys it has no say where permits are given back: that
// depends on which of several idle keys is forgotten. Then nobody waits who could go.
func TestSharedWithLittleRoomIsItsModel(t *testing.T) {
	const ms = time.Millisecond
	waited := 0
	for seed := range uint64(effort.Times(200)) {
		r := rand.New(rand.NewPCG(seed, 47))
		m := slowShared{max: 1 << 20, newest: r.IntN(2) == 0, timeout: -1}
		cfg := SharedConfig{MaxQueue: m.max, Newest: m.newest, MaxWait: -1}
		for range 1 + r.IntN(3) {
			a, b := roomModel(t, r)
			cfg.Limiters, m.limiters = append(cfg.Limiters, a), append(m.limiters, b)
		}
		if r.IntN(2) == 0 {
			c := ConcurrencyConfig{Limit: 3 + r.IntN(4), AskAgain: time.Hour}
			cfg.Whole, m.whole = []Limiter{newHeld(t, c)}, []Limiter{newHeld(t, c)}
		}
		settles := seed%2 == 1
		bubble(t, func(t *testing.T) {
			s := newShared(t, cfg)
			type pair struct {
				r *Reservation
				c *slowCall
			}
			var all []pair
			compare := func(step int) {
				t.Helper()
				if r := couldGo(s); r != nil {
					t.Errorf("seed %d step %d: call %d of key %s waits and could go", seed, step, r.call, r.key)
				}
				for i, p := range all {
					if settles {
						p.c.decided = p.r.Err() != errWaiting
					} else {
						check(t, seed, step, i, p.r, p.c)
					}
				}
				if t.Failed() {
					t.FailNow()
				}
			}
			for step := range 400 {
				now, i := time.Now(), 0
				if len(all) > 0 {
					i = r.IntN(len(all))
				}
				switch a := r.IntN(14); {
				case a < 5 && len(all) < 40:
					key, n := fmt.Sprint(r.IntN(8)), 1+r.IntN(2)
					p := pair{s.Reserve(key, n), &slowCall{key: key, n: n}}
					if !settles {
						p.c = m.enter(now, key, n)
					}
					all = append(all, p)
				case a < 9 && i < len(all) && all[i].c.decided:
					p, used := all[i], all[i].c.n
					if settles {
						used = r.IntN(used + 1)
					}
					s.ended(p.c.key, p.c.n, ending{taken: p.r.taken, used: used})
					if !settles {
						m.ends(now, p.r.taken, p.c.key, used)
					}
					all = slices.Delete(all, i, i+1)
				case a < 10 && i < len(all) && !all[i].c.decided:
					waited++
					all[i].r.Cancel()
					if !settles {
						m.decide(all[i].c, "")
						m.pump(now)
					}
					all = slices.Delete(all, i, i+1)
				case a == 10:
					s.Update(func(time.Time) {})
				case a > 10:
					for range 1 + r.IntN(5) {
						time.Sleep(ms)
						synctest.Wait()
						if !settles {
							m.pump(time.Now())
						}
						compare(step)
					}
				}
				compare(step)
			}
		})
	}
	if waited < 100 {
		t.Errorf("the test tests little: %d waited", waited)
	}
}

// ends ends a call that took n permits.
func (m *slowShared) ends(now, taken time.Time, key string, n int) {
	one := func(l Limiter, key string) {
		settleAt(l, now, taken, key, n, n)
		if r, ok := l.(Releaser); ok {
			r.Release(now, key, n)
		}
	}
	for _, l := range m.limiters {
		one(l, key)
	}
	for _, l := range m.whole {
		one(l, "")
	}
	m.pump(now)
}

// couldGo looks at everybody who waits and returns one who need not; nil when there is
// none.
func couldGo(s *Shared) *Reservation {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, seen := time.Now(), map[string]bool{}
	r := s.queue.all.oldest
	if s.queue.newest {
		r = s.queue.all.newest
	}
	for ; r != nil; r = next(s, r) {
		if seen[r.key] {
			continue
		}
		seen[r.key] = true
		if wait, _ := askAll(s.limiters, now, r.key, r.n); wait > 0 {
			continue
		}
		if wait, _ := askAll(s.whole, now, "", r.n); wait > 0 {
			return nil // and nobody overtakes it
		}
		return r
	}
	return nil
}

func next(s *Shared, r *Reservation) *Reservation {
	if s.queue.newest {
		return r.link[s.queue.all.which].older
	}
	return r.link[s.queue.all.which].newer
}

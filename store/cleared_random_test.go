package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// crowded is a process with some governors of one name, and a bad way to the store.
type crowded struct {
	syncer *store.Syncer
	govs   []*governor.Plain
	fate   atomic.Int32
	delay  atomic.Int64
	spoke  time.Time
}

// mayNotBeHeard reports whether what p has said may not have reached the store.
func (p *crowded) mayNotBeHeard() bool {
	return time.Since(p.spoke) < 5*time.Second && (p.fate.Load() != int32(arrives) || p.delay.Load() > 0)
}

// Governors of three processes are told to wait and cleared at random, come and go, while
// requests and answers are lost, late and repeated. What a vendor has said to one after the
// last clear holds for it; in quiet a clear reaches all; and where each word asks for more
// than those before it, in quiet all cool for as long. So it is where the store loses its
// state meanwhile, or a word comes to it after a clear that was later, but that a clear may
// not be heard by all then.
func TestCooldownsOfProcessesAgreeInQuiet(t *testing.T) {
	for _, grows := range []bool{false, true} {
		for _, loses := range []bool{false, true} {
			for seed := range uint64(effort.Times(100)) {
				var log []string
				synctest.Test(t, func(t *testing.T) {
					if err := disagree(t, seed, grows, loses, &log); err != "" {
						t.Errorf("seed %d, words that grow %v, state that is lost %v: %s\n%s", seed, grows, loses, err, strings.Join(log, "\n"))
					}
				})
			}
		}
	}
}

func disagree(t *testing.T, seed uint64, grows, loses bool, log *[]string) string {
	r := rand.New(rand.NewPCG(seed, 1))
	base := time.Now()
	say := func(f string, a ...any) {
		*log = append(*log, fmt.Sprintf("%9.3f ", time.Since(base).Seconds())+fmt.Sprintf(f, a...))
	}
	m := memory(t)
	var all []*crowded
	for range 3 {
		p := &crowded{}
		var late func() time.Duration
		if seed%2 == 0 {
			late = func() time.Duration { return time.Duration(rand.Int64N(1 + p.delay.Load())) }
		}
		p.syncer = syncer(t, store.SyncerConfig{Store: &faulty{Store: m,
			fate: func() fate {
				if rand.IntN(3) == 0 {
					return arrives
				}
				return fate(p.fate.Load())
			},
			delay: func() time.Duration { return time.Duration(p.delay.Load()) },
			late:  late,
		}})
		for range 1 + r.IntN(2) {
			p.govs = append(p.govs, join(t, p.syncer))
		}
		all = append(all, p)
	}
	defer func() {
		for _, p := range all {
			for _, g := range p.govs {
				g.Close()
			}
			p.syncer.Close()
		}
	}()
	time.Sleep(3 * time.Second)
	sc := scopesThatCool[r.IntN(2)]
	var last time.Time                         // end of what was said
	words := map[*governor.Plain][]time.Time{} // ends of what each was told since the last clear
	unheard := false                           // a clear may be
	forget := func() {
		clear(words)
		unheard = loses || slices.ContainsFunc(all, (*crowded).mayNotBeHeard)
	}
	for round := range 4 {
		for range 1 + r.IntN(6) {
			i := r.IntN(len(all))
			p := all[i]
			if len(p.govs) == 0 {
				p.govs = append(p.govs, join(t, p.syncer))
			}
			j := r.IntN(len(p.govs))
			g := p.govs[j]
			switch r.IntN(8) {
			case 0, 1, 2:
				d := time.Duration(120+r.IntN(1000)) * time.Second
				if grows {
					d += max(0, time.Until(last))
				}
				last = time.Now().Add(d)
				say("%d/%d learns %v", i, j, d)
				g.Learn(throttle.Signal{Scope: sc, Delay: d})
				words[g] = append(words[g], last)
				p.spoke = time.Now()
			case 3, 4:
				say("%d/%d is cleared", i, j)
				g.Clear(sc)
				forget()
			case 5:
				p.fate.Store(int32(r.IntN(4)))
				say("fate of %d is %d", i, p.fate.Load())
			case 6:
				p.delay.Store(int64(time.Duration(r.IntN(800)) * time.Millisecond))
				say("way of %d is %v", i, time.Duration(p.delay.Load()))
			case 7:
				if r.IntN(2) == 0 {
					say("%d/%d joins", i, len(p.govs))
					p.govs = append(p.govs, join(t, p.syncer))
				} else {
					say("%d/%d leaves", i, j)
					g.Close()
					p.govs = append(p.govs[:j:j], p.govs[j+1:]...)
				}
			}
			if loses && r.IntN(4) == 0 {
				say("the state is lost")
				m.Lose()
			}
			time.Sleep(time.Duration(1+r.IntN(1000)) * time.Millisecond / time.Duration(1+r.IntN(300)))
			if r.IntN(4) == 0 {
				time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
			}
		}
		for _, p := range all {
			p.fate.Store(int32(arrives))
			p.delay.Store(0)
		}
		time.Sleep(30 * time.Second)
		least, most := time.Duration(1<<62), time.Duration(0)
		for i, p := range all {
			for j, g := range p.govs {
				left := coolsFor(g, sc)
				say("round %d: %d/%d cools for %v", round, i, j, left)
				least, most = min(least, left), max(most, left)
				for _, end := range words[g] {
					if left < time.Until(end) {
						return fmt.Sprintf("%d/%d was told to wait for longer", i, j)
					}
				}
			}
		}
		if grows && !unheard && most-least > 5*time.Second {
			return "they do not agree"
		}
		for i, p := range all {
			if len(p.govs) == 0 || r.IntN(2) == 0 {
				continue
			}
			say("%d/0 is cleared in quiet", i)
			p.govs[0].Clear(sc)
			clear(words)
			time.Sleep(3 * time.Second)
			for _, p := range all {
				for _, g := range p.govs {
					if left := coolsFor(g, sc); left > 0 && (grows && !unheard || most-least < 5*time.Second) {
						return fmt.Sprintf("%v are left after a clear", left)
					}
				}
			}
			break
		}
	}
	return ""
}

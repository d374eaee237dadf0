package clustertest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
)

// late is how late timers of this process are: the machine's part of what takes too
// long. What is promised within a time is asked of a machine that is as late as that.
var late lateness

type lateness struct {
	mu    sync.Mutex
	total time.Duration // guarded by mu
}

// begin measures from now on, until what it returns is called.
func (l *lateness) begin() (end func()) {
	const tick = 5 * time.Millisecond
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			from := time.Now()
			select {
			case <-time.After(tick):
			case <-stop:
				return
			}
			if by := time.Since(from) - tick; by > tick { // else it is a timer's usual
				l.mu.Lock()
				l.total += by
				l.mu.Unlock()
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// sum is by how much all timers were late, from begin on.
func (l *lateness) sum() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// tries is how often what has to happen in time may be asked again of a machine that
// stalls. Who is always too late is caught at the last of them.
const tries = 5

// slotsOfTheKilled has one of three replicas killed that hold all slots.
func slotsOfTheKilled() scenario {
	const slots = 6
	const ttl = 3 * time.Second // a replica may stall for half of it
	return scenario{
		name:     "slots of the killed",
		controls: append(with(slotsForMe), control{name: "kept for a minute", breaks: func(s *scenario) { s.template.TTL = time.Minute }}),
		template: replica{Slots: slots, TTL: ttl, Every: 5 * time.Millisecond},
		vendor:   judge.Config{Slots: slots, Hold: 100 * time.Millisecond},
		round: func(c *cluster) error {
			var took time.Duration
			for range tries {
				if took > 0 {
					c.replace(0)
				}
				// A new store believes first what nodes say they hold.
				from, dies := clock(), c.members[0].name
				err := await("three replicas make six calls at once, the one that dies among them", func() bool {
					return c.most(from) >= slots && c.written("vendor").Arrived(dies, from, 1<<62) > 0
				})
				if err != nil {
					return err
				}
				if c.vendor.Tally().Crowded > 0 {
					return nil // that is worse
				}
				before := late.sum()
				c.kill(c.members[0])
				killed := clock()
				if c.control {
					time.Sleep(2 * (ttl + time.Second))
				} else if err := await("two make six calls at once", func() bool { return c.most(killed) >= slots }); err != nil {
					return err
				}
				most := c.most(killed)
				took = time.Duration(clock() - killed)
				if most < slots {
					return fmt.Errorf("%d calls at once %v after one replica was killed, want %d", most, took, slots)
				}
				if took <= ttl+time.Second+late.sum()-before {
					c.t.Logf("all slots are used %v after one replica was killed", took)
					return nil
				}
			}
			return fmt.Errorf("all slots are used %v after one replica was killed, want %v", took, ttl+time.Second)
		},
		last: func(c *cluster) error {
			if n := c.vendor.Tally().Crowded; n > 0 {
				return fmt.Errorf("%d calls were more than %d at once", n, slots)
			}
			return nil
		},
	}
}

// most is how many calls those who live have had under way at once, that began from
// from on, as far as is written down.
func (c *cluster) most(from int64) (most int) {
	var rs []judge.Record
	for _, m := range c.members {
		if m.dead {
			continue
		}
		began := make(map[int64]bool)
		for _, r := range c.written(m.name).Records {
			if r.Kind == judge.Begin && r.At >= from {
				began[r.ID] = true
				rs = append(rs, r)
			} else if r.Kind == judge.Finish && began[r.ID] {
				rs = append(rs, r)
			}
		}
	}
	slices.SortStableFunc(rs, func(a, b judge.Record) int { return cmp.Compare(a.At, b.At) })
	now := 0
	for _, r := range rs {
		if r.Kind == judge.Begin {
			now++
		} else {
			now--
		}
		most = max(most, now)
	}
	return most
}

// cooldown has the vendor ask one replica for a pause, of which no other gets a hint.
func cooldown() scenario {
	const within, pause = 1100 * time.Millisecond, 6 * time.Second
	return scenario{
		name: "a pause without hints", controls: with(unheard),
		template: replica{Limit: window(), Deaf: true},
		round: func(c *cluster) error {
			var took time.Duration
			for range tries {
				began, before := clock(), late.sum()
				c.vendor.Pause(pause)
				io.WriteString(c.members[0].stdin, "submit 1\n")
				first, err := c.heard(c.members[0], began)
				if err != nil {
					return err
				}
				took = 0
				for _, m := range c.members[1:] {
					r, err := c.heard(m, began)
					if err != nil {
						return err
					}
					took = max(took, time.Duration(r.At-first.At))
				}
				allow := within + late.sum() - before
				c.tell("submit 5")
				time.Sleep(500 * time.Millisecond)
				if n := c.written("vendor").Arrived("", began, first.Until-int64(50*time.Millisecond)); n != 1 {
					return fmt.Errorf("%d calls arrived in the pause, want the one that was refused", n)
				}
				if took <= allow {
					c.t.Logf("all knew of the pause %v after the first", took)
					return nil
				}
				if err := c.allDone(); err != nil { // what waits for the pause's end
					return err
				}
			}
			return fmt.Errorf("a replica hears of the pause %v after the first, want at most %v", took, within)
		},
	}
}

// heard waits until m knows of a pause, from from on. What is broken has three seconds.
func (c *cluster) heard(m *member, from int64) (heard judge.Record, err error) {
	end := time.Now().Add(3 * time.Second)
	err = await(m.name+" knows of the pause", func() bool {
		for _, r := range c.written(m.name).Records {
			if r.Kind == judge.Cool && r.At >= from {
				heard = r
				return true
			}
		}
		return c.control && time.Now().After(end)
	})
	if err == nil && heard.At == 0 {
		err = fmt.Errorf("%s never hears of the pause", m.name)
	}
	return heard, err
}

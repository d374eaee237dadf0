package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/store"
)

func hints(c *check) {
	var heard, wrong atomic.Int64
	stop, err := c.Store.Watch(c.Context(), func(h store.Hint) {
		if h.Key == c.key || h.Key == "" {
			heard.Add(1)
		} else {
			wrong.Add(1)
		}
	})
	if err != nil {
		c.Fatalf("Watch: %v", err)
	}
	n := nodes(2)
	c.ask(n[0], store.Item{})
	before := heard.Load()
	for tries := 1; heard.Load() == before; tries++ { // who has to subscribe may miss some
		if tries > 10 {
			c.Errorf("no hint of ten cooldowns")
			break
		}
		c.ask(n[1], cool("", time.Duration(tries)*time.Minute))
		for sent := time.Now(); heard.Load() == before && time.Since(sent) < time.Second; {
			time.Sleep(time.Millisecond)
		}
	}
	for at := time.Now(); time.Since(at) < 300*time.Millisecond; time.Sleep(time.Millisecond) {
		if n := heard.Load(); n != before { // until no more come
			before, at = n, time.Now()
		}
	}
	c.ask(n[1], cool("", time.Second))
	stop()
	stop()
	for i := range 5 {
		c.ask(n[1], cool("", time.Hour<<i))
	}
	time.Sleep(500 * time.Millisecond)
	if heard.Load() > before+1 { // one may have been under way
		c.Errorf("hints of no change, or after stop")
	}
}

// words looks for hints that say anything else of a word than the answer to it.
func words(c *check) {
	var mu sync.Mutex
	var heard []store.Hint
	stop, err := c.Store.Watch(c.Context(), func(h store.Hint) {
		mu.Lock()
		defer mu.Unlock()
		if h.Key == c.key && len(h.Cooldowns) > 0 {
			heard = append(heard, h)
		}
	})
	if err != nil {
		c.Fatalf("Watch: %v", err)
	}
	defer stop()
	n := nodes(2)
	c.ask(n[0], store.Item{})
	all := make(map[uint64]store.Cooldown)
	var epoch string
	begun := time.Now()
	for i := range 5 {
		for _, scope := range []string{"", "tenant:a b:c", "tenant:", "tenant:a\x00b 5:c"} {
			a := c.ask(n[1], cool(scope, time.Duration(i+1)*time.Hour))
			epoch = a.Epoch
			for _, cd := range a.Cooldowns {
				all[cd.Gen] = cd
			}
		}
		c.ask(n[1], store.Item{Clear: []store.Cleared{{Scope: "tenant:", Gen: 1 << 50}}})
	}
	for sent := time.Now(); time.Since(sent) < time.Second; time.Sleep(time.Millisecond) {
		mu.Lock()
		n := len(heard)
		mu.Unlock()
		if n == 20 {
			break
		}
	}
	took := time.Since(begun)
	mu.Lock()
	defer mu.Unlock()
	if len(heard) == 0 {
		c.Skip("the engine's hints do not say what is news")
	}
	for _, h := range heard {
		for _, cd := range h.Cooldowns {
			if is := all[cd.Gen]; h.Epoch != epoch || cd.Scope != is.Scope || cd.Left > is.Left+took || cd.Left < is.Left-took || cd.Left == 0 {
				c.Errorf("a hint says %+v of epoch %q, and the answer %+v of %q", cd, h.Epoch, is, epoch)
			}
		}
	}
}

// heardUntil looks for changes of which there was no hint, though the engine says that
// it has heard of all until later.
func heardUntil(c *check) {
	a, ok := c.Store.(store.Attentive)
	if !ok {
		c.Skip("the engine does not know which hints it has missed")
	}
	var heard atomic.Int64
	stop, err := c.Store.Watch(c.Context(), func(h store.Hint) {
		if h.Key == c.key || h.Key == "" {
			heard.Add(1)
		}
	})
	if err != nil {
		c.Fatalf("Watch: %v", err)
	}
	defer stop()
	n := nodes(2)
	c.ask(n[0], store.Item{})
	later := func(t time.Time, within time.Duration) bool { // whether it says so soon
		for time.Since(t) < within {
			if a.HeardUntil().After(t) {
				return true
			}
			time.Sleep(time.Millisecond)
		}
		return false
	}
	if !later(time.Now(), 3*time.Second) {
		c.Skip("the engine does not know which hints it has missed")
	}
	for i := range 5 {
		before := heard.Load()
		c.ask(n[1], cool("", time.Duration(i+1)*time.Minute))
		if !later(time.Now(), time.Minute) {
			c.Errorf("it has heard of nothing for a minute")
		} else if heard.Load() == before {
			c.Errorf("no hint of a cooldown that is older than what was heard of")
		}
		if until := a.HeardUntil(); until.After(time.Now()) {
			c.Errorf("it has heard of the next %v", time.Until(until))
		}
	}
}

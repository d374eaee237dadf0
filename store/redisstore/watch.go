package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// quiet is how long a subscription may take to say that it is still there.
const quiet = 2 * time.Second

// beat is how often it is asked: more often where that says what it has heard.
func (s *Store) beat() time.Duration {
	if s.alone || s.follows {
		return 750 * time.Millisecond
	}
	return quiet
}

// Watch subscribes to the hints of all keys, in one connection of its own, and again
// whenever that is lost; then there is a hint of any key, since some may have been missed. The
// error is that of the first subscription.
func (s *Store) Watch(ctx context.Context, hint func(store.Hint)) (stop func(), err error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	sub, own, err := s.subscribe(ctx)
	if err != nil {
		s.work.Done()
		return nil, err
	}
	w := &watch{s: s, hint: hint, sub: sub, own: own}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		w.stop()
		s.work.Done()
		return nil, store.ErrClosed
	}
	s.nextID++
	id := s.nextID
	s.watches[id] = w
	if s.follows {
		s.work.Add(1)
	}
	s.mu.Unlock()
	go w.loop()
	if s.follows {
		go w.prove()
	}
	return func() {
		s.mu.Lock()
		delete(s.watches, id)
		s.mu.Unlock()
		w.stop()
	}, nil
}

// watch is one subscription, over its connections. It ends with stop; Store.work
// waits for it.
type watch struct {
	s      *Store
	hint   func(store.Hint)
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex    // guards what follows
	sub     *redis.PubSub // set by the loop alone
	own     string        // the channel that nobody else subscribes to, if it has one
	heard   time.Time     // until when nothing of its server was missed
	proved  time.Time     // when that was last the server that executes, if it has a channel
	renewed bool          // sub is closed: what it said before does not count
}

// stop ends the loop, which may be in a hint.
func (w *watch) stop() {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sub.Close() // wakes the loop
}

// renew has the loop subscribe anew. Nothing is heard until then.
func (w *watch) renew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard, w.proved, w.renewed = time.Time{}, time.Time{}, true
	w.sub.Close() // wakes the loop
}

func (w *watch) loop() {
	defer w.s.work.Done()
	var asked time.Time // whether it is there; zero: it has answered
	next, n := time.Now(), 0
	for w.ctx.Err() == nil {
		wait := time.Until(next)
		if !asked.IsZero() {
			wait = time.Until(asked.Add(quiet))
		}
		lost := wait <= 0 && !asked.IsZero()
		if wait <= 0 && !lost {
			n++
			asked = time.Now()
			lost = w.sub.Ping(w.ctx, strconv.Itoa(n)) != nil
			wait = quiet
		}
		if !lost {
			msg, err := w.sub.ReceiveTimeout(w.ctx, wait)
			timeout, ok := errors.AsType[net.Error](err)
			lost = err != nil && !(ok && timeout.Timeout())
			switch m := msg.(type) {
			case *redis.Message:
				if key := keyOf(m.Channel); store.CheckKey(key) == nil {
					w.hint(parseHint(key, m.Payload))
				}
			case *redis.Pong:
				// The server sends in the order in which it does things, so that all
				// hints of what it did before it was asked were there before this.
				if m.Payload == strconv.Itoa(n) && !asked.IsZero() {
					w.has(asked)
					next, asked = asked.Add(w.s.beat()), time.Time{}
				}
			case *redis.Subscription: // of another connection, made by the client
				w.hint(store.Hint{})
			}
		}
		if lost && w.ctx.Err() == nil {
			asked, next = time.Time{}, time.Now()
			if w.again() {
				w.hint(store.Hint{})
			}
		}
	}
}

// has notes that nothing was missed until t, unless the subscription is to be renewed.
func (w *watch) has(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.renewed {
		w.heard = t
	}
}

// HeardUntil returns when the subscriptions were last asked whether they are there, and
// said so; where another server may be the one that executes, when that had them, if it
// is earlier. A Store of a Cluster does not know: what one of its nodes publishes it
// passes on to the others, but does not promise to.
func (s *Store) HeardUntil() (least time.Time) {
	if !s.alone && !s.follows {
		return least
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		w.mu.Lock()
		t := w.heard
		if s.follows && w.proved.Before(t) {
			t = w.proved
		}
		w.mu.Unlock()
		if t.IsZero() {
			return t
		}
		if least.IsZero() || t.Before(least) {
			least = t
		}
	}
	return least
}

// again subscribes anew, as often as it takes.
func (w *watch) again() bool {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		w.mu.Lock()
		w.sub.Close()
		w.renewed = false // by what comes next
		w.mu.Unlock()
		pause := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-pause.C:
		case <-w.ctx.Done():
			pause.Stop()
			return false
		}
		ctx, cancel := context.WithTimeout(w.ctx, 2*quiet)
		sub, own, err := w.s.subscribe(ctx)
		cancel()
		if err != nil {
			continue
		}
		w.mu.Lock()
		if w.renewed { // meanwhile: it may be with the server before
			w.mu.Unlock()
			sub.Close()
			continue
		}
		w.sub, w.own = sub, own
		w.proved = time.Time{}
		if w.ctx.Err() != nil { // stop has closed the one before
			sub.Close()
		}
		w.mu.Unlock()
		return w.ctx.Err() == nil
	}
}

// subscribe returns a subscription that the server has confirmed.
func (s *Store) subscribe(ctx context.Context) (sub *redis.PubSub, own string, err error) {
	if sub, own, err = s.listen(ctx); errors.Is(err, redis.ErrClosed) {
		return nil, "", store.ErrClosed
	} else if err != nil {
		return nil, "", fmt.Errorf("%w: redisstore: %w", store.ErrNotExecuted, err)
	}
	return sub, own, nil
}

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// quiet is how long a subscription may be silent before it is asked whether it is
// still there.
const quiet = 2 * time.Second

// Watch subscribes to the hints of all keys, in one connection of its own, and again
// whenever that is lost; then hint gets "", since some may have been missed. The
// error is that of the first subscription.
func (s *Store) Watch(ctx context.Context, hint func(key string)) (stop func(), err error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	sub, err := s.subscribe(ctx)
	if err != nil {
		s.work.Done()
		return nil, err
	}
	w := &watch{s: s, hint: hint, sub: sub}
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
	s.stops[id] = w.stop
	s.mu.Unlock()
	go w.loop()
	return func() {
		s.mu.Lock()
		delete(s.stops, id)
		s.mu.Unlock()
		w.stop()
	}, nil
}

// watch is one subscription, over its connections. It ends with stop; Store.work
// waits for it.
type watch struct {
	s      *Store
	hint   func(key string)
	ctx    context.Context
	cancel context.CancelFunc

	mu  sync.Mutex
	sub *redis.PubSub // guarded by mu
}

// stop ends the loop, which may be in a hint.
func (w *watch) stop() {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sub.Close() // wakes the loop
}

func (w *watch) loop() {
	defer w.s.work.Done()
	asked := false // whether it is there
	for w.ctx.Err() == nil {
		msg, err := w.sub.ReceiveTimeout(w.ctx, quiet)
		if w.ctx.Err() != nil {
			break
		}
		var timeout net.Error
		switch m := msg.(type) {
		case *redis.Message:
			asked = false
			if key := keyOf(m.Channel); store.CheckKey(key) == nil {
				w.hint(key)
			}
			continue
		default:
			if err == nil {
				asked = false
				continue
			}
		}
		if errors.As(err, &timeout) && timeout.Timeout() && !asked {
			asked = true
			if w.sub.Ping(w.ctx) == nil {
				continue
			}
		}
		asked = false
		if w.again() {
			w.hint("")
		}
	}
}

// again subscribes anew, as often as it takes.
func (w *watch) again() bool {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		w.mu.Lock()
		w.sub.Close()
		w.mu.Unlock()
		pause := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-pause.C:
		case <-w.ctx.Done():
			pause.Stop()
			return false
		}
		ctx, cancel := context.WithTimeout(w.ctx, 2*quiet)
		sub, err := w.s.subscribe(ctx)
		cancel()
		if err != nil {
			continue
		}
		w.mu.Lock()
		w.sub = sub
		if w.ctx.Err() != nil { // stop has closed the one before
			sub.Close()
		}
		w.mu.Unlock()
		return w.ctx.Err() == nil
	}
}

// subscribe returns a subscription that the server has confirmed.
func (s *Store) subscribe(ctx context.Context) (*redis.PubSub, error) {
	// A pattern, so that the hints of a key are heard from its first exchange on.
	sub := s.client.PSubscribe(ctx, prefix+"*")
	if _, err := sub.Receive(ctx); err != nil {
		sub.Close()
		if errors.Is(err, redis.ErrClosed) {
			return nil, store.ErrClosed
		}
		return nil, fmt.Errorf("%w: redisstore: %w", store.ErrNotExecuted, err)
	}
	return sub, nil
}

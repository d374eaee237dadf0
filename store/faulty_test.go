package store_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/store"
)

// counting counts the exchanges of several nodes.
type counting struct{ n atomic.Int64 }

func (c *counting) wrap(s store.Store) store.Store {
	return &faulty{Store: s, count: &c.n}
}

var errNetwork = errors.New("the network is down")

// faulty is a Store behind a network.
type faulty struct {
	store.Store
	count *atomic.Int64
	delay func() time.Duration // of the way there, and the way back
	fate  func() fate
	deaf  bool                 // hears no hints
	hangs bool                 // and is not told that it does not
	stale atomic.Bool          // the next answers say nothing
	mute  atomic.Bool          // hears none any more, and does not know
	heard func() time.Time     // nil: HeardUntil of Store
	late  func() time.Duration // hints come so much later
}

var _ store.Attentive = (*faulty)(nil)

// fate is what happens to a request.
type fate int

const (
	arrives   fate = iota
	lost           // it does not arrive
	swallowed      // its answer does not
	repeated       // it arrives twice, the second time much later
)

func (f *faulty) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if f.count != nil {
		f.count.Add(1)
	}
	if f.stale.CompareAndSwap(true, false) {
		var as []store.Answer
		for _, it := range items {
			as = append(as, store.Answer{Node: node, Key: it.Key, Seq: it.Seq, Stale: true})
		}
		return as, nil
	}
	do := arrives
	if f.fate != nil {
		do = f.fate()
	}
	if do == lost {
		return nil, f.silence(ctx)
	}
	if f.delay != nil {
		if err := sleep(ctx, f.delay()/2); err != nil {
			return nil, err
		}
	}
	as, err := f.Store.Exchange(context.WithoutCancel(ctx), node, items)
	switch do {
	case swallowed:
		return nil, f.silence(ctx)
	case repeated:
		f.Store.Exchange(context.WithoutCancel(ctx), node, items)
	}
	if f.delay != nil {
		if err := sleep(ctx, f.delay()/2); err != nil {
			return nil, err
		}
	}
	return as, err
}

// silence is what there is to hear of a request that is lost.
func (f *faulty) silence(ctx context.Context) error {
	if err := sleep(ctx, 50*time.Millisecond); err != nil {
		return err
	}
	return errNetwork
}

func (f *faulty) Watch(ctx context.Context, hint func(store.Hint)) (func(), error) {
	if f.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.deaf {
		return func() {}, nil
	}
	var mu sync.Mutex // one hint at a time
	return f.Store.Watch(ctx, func(h store.Hint) {
		if f.mute.Load() {
			return
		}
		if f.late != nil {
			if d := f.late(); d > 0 {
				time.AfterFunc(d, func() {
					mu.Lock()
					defer mu.Unlock()
					hint(h)
				})
				return
			}
		}
		mu.Lock()
		defer mu.Unlock()
		hint(h)
	})
}

func (f *faulty) HeardUntil() (t time.Time) {
	switch a, ok := f.Store.(store.Attentive); {
	case f.heard != nil:
		return f.heard()
	case ok && !f.deaf && f.late == nil:
		return a.HeardUntil()
	}
	return t
}

// sleep makes no timer of 0: under the race detector Go 1.26 crashes when several
// goroutines of a bubble look at timers that were due when they were set.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// losing is a Memory that loses its state.
type losing struct{ m atomic.Pointer[store.Memory] }

// lose makes it forget everything, and know that it has, or not.
func (l *losing) lose(knows bool) {
	if knows {
		l.m.Load().Lose()
		return
	}
	m, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		panic(err)
	}
	l.m.Store(m)
}

func (l *losing) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	return l.m.Load().Exchange(ctx, node, items)
}

func (l *losing) Meta(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
	return l.m.Load().Meta(ctx, op)
}

func (l *losing) Watch(ctx context.Context, hint func(store.Hint)) (func(), error) {
	return l.m.Load().Watch(ctx, hint)
}

func (l *losing) TTL() time.Duration { return l.m.Load().TTL() }
func (l *losing) Close() error       { return l.m.Load().Close() }

// saying is a test whose complaints are counted.
type saying struct {
	testing.TB
	said int
}

func (s *saying) Errorf(string, ...any) { s.said++ }
func (s *saying) Error(...any)          { s.said++ }

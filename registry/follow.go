package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/store"
)

// FollowerConfig says what a Follower follows.
type FollowerConfig struct {
	// Store keeps the text, as metadata: up to 8 KiB. It is not closed. Required.
	Store store.Store

	// Key is that of the text: 1 to 36 bytes of [A-Za-z0-9:-], "config:shop", say. Required.
	Key string

	// Refresh is how often the text is read when nothing hints at a change: in it one is
	// found whose hint was lost, or that was made by other means than Put. It costs a
	// round trip per process and Refresh. 0 means 1 s, at least 10 ms.
	Refresh time.Duration

	// Logger gets a record when a text comes into force or is refused, and when the
	// store is lost and back. nil discards.
	Logger *slog.Logger
}

// Follower keeps a Registry at what a text in a store says, so that all processes that
// follow the text have the same bases and instances. What those let pass each process
// counts for itself: a limit of 100 is 100 in each.
//
// The text is one that Registry.Load reads, and it comes into force as Load says,
// wherever the store's hints are heard at once, and else within FollowerConfig.Refresh:
// a limit that is lowered counts at once, one that is raised when a window is over.
// What it does not name, or not any more, stays as it is; so does everything when it is
// deleted. What a process sets by itself stays until the next version.
//
// A text comes into force whole or not at all. It is refused, and the one before stays,
// when any part of it could not be read, made, or changed in what runs, with the
// overrides that this process has. It is not tried again until Refresh or a new
// version. Versions only go forward: one that is smaller than another that was read is
// refused, too. While the store does not answer everything stays as it is.
//
// Registry.Listen hears of it, in events whose Name is the Key: event.Changed, with the
// Source "changed configuration" or, with an Err, "refused configuration", once for
// each version, event.StoreLost and event.StoreBack.
//
// It may be used by any number of goroutines at once, has one of its own, and must be
// closed. Make one with Registry.Follow.
type Follower struct {
	reg     *Registry
	cfg     FollowerConfig
	bell    string        // the key whose hints tell of a Put
	wake    chan struct{} // has room for one: there may be news
	asks    chan ask
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	done    chan struct{} // loop has ended
	version atomic.Uint64 // in force; written by loop alone

	// What follows belongs to loop.
	unwatch func()
	lost    bool
	refused uint64 // the largest version that was refused, and
	why     error
	older   uint64 // the last that was told to come too late
}

// ask is what a caller has loop do.
type ask struct {
	put    store.Record // brought into force; without a Version: what is read now
	answer chan error   // has room for it
}

// Follow begins to follow a text: it is read at once, on a goroutine of the Follower.
// Who needs it in force first calls Follower.Refresh, and decides what to do when the
// store does not answer. The error names the field that is out of range.
func (r *Registry) Follow(cfg FollowerConfig) (*Follower, error) {
	cfg.Refresh = cmp.Or(cfg.Refresh, time.Second)
	switch {
	case r == nil || r.Breakers == nil:
		return nil, invalidf("Follow of a Registry that New has not made")
	case cfg.Store == nil:
		return nil, invalidf("FollowerConfig.Store is nil, want one")
	case store.CheckKey(cfg.Key) != nil:
		return nil, invalidf("FollowerConfig.Key is %.64q, want 1 to 36 of [A-Za-z0-9:-]", cfg.Key)
	case cfg.Refresh < 10*time.Millisecond:
		return nil, invalidf("FollowerConfig.Refresh is %v, want 10ms or more", cfg.Refresh)
	}
	f := &Follower{
		reg: r, cfg: cfg, bell: store.KeyFor("registry", "configuration", cfg.Key),
		wake: make(chan struct{}, 1), asks: make(chan ask), done: make(chan struct{}),
	}
	f.wake <- struct{}{} // the first reading
	f.ctx, f.cancel = context.WithCancel(context.Background())
	go f.loop()
	return f, nil
}

// Close ends the following, and returns when nothing of the Follower runs any more. What
// is in force stays. It may be called again.
func (f *Follower) Close() error {
	f.cancel()
	<-f.done
	return nil
}

// Version returns that of the text in force, 0 when there is none yet. What is stored
// may have another one: see Get.
func (f *Follower) Version() uint64 { return f.version.Load() }

// Refresh reads the text now, and returns nil when it is in force, or there is none. The
// error is that of the store; says why the text was refused, which is tried again; or
// matches ErrClosed. When ctx ends it returns the cause, and the text is read
// nevertheless.
func (f *Follower) Refresh(ctx context.Context) error { return f.ask(ctx, store.Record{}) }

// Get returns the text as it is stored, with its version; a Record of Version 0 when
// there is none. The error is that of the store.
func (f *Follower) Get(ctx context.Context) (store.Record, error) {
	if ctx == nil {
		return store.Record{}, errNilContext
	}
	found, err := meta(ctx, f.cfg.Store, store.MetaOp{Do: store.Get, Key: f.cfg.Key})
	if err != nil {
		return store.Record{}, f.failed(err)
	}
	if len(found) == 0 {
		return store.Record{Key: f.cfg.Key}, nil
	}
	return found[0], nil
}

// Put stores a text, as it is, if version is that of what is stored now, 0 when nothing
// is, and returns it with its new version. It is in force here then, and elsewhere as
// soon as the store's hint is heard.
//
// A text that would be refused here is not stored, and the error says why. It matches
// store.ErrConflict when another version is stored, and store.ErrNotExecuted when the
// store did nothing. After any other error without a Record the text may have been
// stored; with a Record it was, and is not in force here, or not yet.
func (f *Follower) Put(ctx context.Context, text json.RawMessage, version uint64) (store.Record, error) {
	if ctx == nil {
		return store.Record{}, errNilContext
	}
	if f.ctx.Err() != nil {
		return store.Record{}, f.failed(ErrClosed)
	}
	if err := safely("an override", func() error { return f.check(text) }); err != nil {
		return store.Record{}, f.failed(err)
	}
	found, err := meta(ctx, f.cfg.Store, store.MetaOp{Do: store.Put, Key: f.cfg.Key, Value: text, Version: version})
	if err == nil && (len(found) != 1 || found[0].Version == 0) {
		err = errors.New("the store returned no record")
	}
	if err != nil {
		return store.Record{}, f.failed(err)
	}
	f.ring(ctx)
	return found[0], f.ask(ctx, found[0])
}

// check returns why a text would be refused.
func (f *Follower) check(text []byte) error {
	of, err := f.reg.parse(text)
	if err == nil {
		err = f.reg.check(of)
	}
	return err
}

// ring has the store hint at a change. Stores hint at what is exchanged: so under a key
// of its own, which nobody else looks at, a scope begins to cool, or ends to. Who is not
// reached reads the text anyway.
func (f *Follower) ring(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	const scope = "changed"
	_ = safely("the Store", func() error {
		_, err := f.cfg.Store.Exchange(ctx, store.NewNode(), []store.Item{{
			Key: f.bell, Seq: 1, Clear: []store.Cleared{{Scope: scope, Gen: math.MaxUint64}},
			Cool: []store.Cool{{Scope: scope, For: time.Millisecond}}, Bye: true,
		}})
		return err
	})
}

// ask has loop bring a record into force.
func (f *Follower) ask(ctx context.Context, put store.Record) error {
	if ctx == nil {
		return errNilContext
	}
	a := ask{put, make(chan error, 1)}
	select {
	case f.asks <- a:
	case <-f.done:
		return f.failed(ErrClosed)
	case <-ctx.Done():
		return f.failed(context.Cause(ctx))
	}
	select {
	case err := <-a.answer: // what loop takes it answers before it ends
		return err
	case <-ctx.Done():
		return f.failed(context.Cause(ctx))
	}
}

func (f *Follower) failed(err error) error {
	return fmt.Errorf("registry: configuration %s: %w", f.cfg.Key, err)
}

package registry

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/store"
)

// followTimeout is how long the store may take for an answer.
const followTimeout = 2 * time.Second

// loop reads the text, when it is time to or something hints at a change, until Close.
func (f *Follower) loop() {
	defer close(f.done)
	defer func() {
		if f.unwatch != nil {
			_ = safely("the Store", func() error { f.unwatch(); return nil })
		}
	}()
	timer := time.NewTimer(f.cfg.Refresh)
	defer timer.Stop()
	for {
		var a ask
		select {
		case <-f.ctx.Done():
			return
		case <-f.wake:
		case <-timer.C:
		case a = <-f.asks:
		}
		var err error
		if a.put.Version > 0 {
			err = f.take(a.put, true)
		} else {
			// Hints are heard before the text is read: what changes after that is hinted at.
			f.watch()
			err = f.read(a.answer != nil)
			timer.Reset(f.cfg.Refresh)
		}
		if a.answer != nil {
			a.answer <- err
		}
	}
}

// watch subscribes to the store's hints, if it is not yet and the store answers.
func (f *Follower) watch() {
	if f.unwatch != nil || f.lost {
		return
	}
	ctx, cancel := context.WithTimeout(f.ctx, followTimeout)
	defer cancel()
	_ = safely("the Store", func() error {
		stop, err := f.cfg.Store.Watch(ctx, f.hint)
		if err == nil {
			f.unwatch = stop
		}
		return err
	})
}

// hint wakes loop. It is called by the store, and does not wait.
func (f *Follower) hint(h store.Hint) {
	if h.Key != "" && h.Key != f.bell && h.Key != f.cfg.Key {
		return
	}
	select {
	case f.wake <- struct{}{}:
	default: // it is about to read
	}
}

// read brings what is stored into force.
func (f *Follower) read(again bool) error {
	ctx, cancel := context.WithTimeout(f.ctx, followTimeout)
	defer cancel()
	found, err := meta(ctx, f.cfg.Store, store.MetaOp{Do: store.Get, Key: f.cfg.Key})
	if f.ctx.Err() != nil {
		return f.failed(ErrClosed)
	}
	if lost := err != nil; lost != f.lost {
		f.lost = lost
		if lost {
			f.tell(slog.LevelWarn, event.StoreLost, "the configuration of before", f.version.Load(), err)
		} else {
			f.tell(slog.LevelInfo, event.StoreBack, "", f.version.Load(), nil)
		}
	}
	switch {
	case err != nil:
		return f.failed(err)
	case len(found) == 0 || found[0].Version == 0:
		return nil
	}
	return f.take(found[0], again)
}

// take brings a record into force, unless it is in force, was refused before and is not
// to be tried again, or comes too late: what was read before it is newer.
func (f *Follower) take(r store.Record, again bool) error {
	switch now := f.version.Load(); {
	case r.Version == now:
		return nil
	case r.Version < max(now, f.refused):
		err := f.failed(fmt.Errorf("%w: %d is older than %d, which was there before", store.ErrConflict, r.Version, max(now, f.refused)))
		if f.older != r.Version {
			f.older = r.Version
			f.tell(slog.LevelWarn, event.Changed, "refused configuration", r.Version, err)
		}
		return err
	case r.Version == f.refused && !again:
		return f.why
	}
	if err := safely("an override", func() error { return f.check(r.Value) }); err != nil {
		first := r.Version != f.refused
		if f.refused, f.why = r.Version, f.failed(err); first {
			f.tell(slog.LevelWarn, event.Changed, "refused configuration", r.Version, err)
		}
		return f.why
	}
	// What was found to be possible fails only where somebody changes the same now.
	err := safely("an override", func() error {
		of, err := f.reg.parse(r.Value)
		if err == nil {
			err = f.reg.set(of)
		}
		return err
	})
	f.version.Store(r.Version)
	level := slog.LevelInfo
	if err != nil {
		level, err = slog.LevelWarn, f.failed(err)
	}
	f.tell(level, event.Changed, "changed configuration", r.Version, err)
	return err
}

// tell reports what came of the text.
func (f *Follower) tell(level slog.Level, kind event.Kind, source string, version uint64, err error) {
	if f.reg.bus.Wants(kind) {
		f.reg.bus.Emit(event.Event{Time: time.Now(), Kind: kind, Name: f.cfg.Key, Source: source, Err: err})
	}
	if f.cfg.Logger == nil {
		return
	}
	msg := kind.String()
	if kind == event.Changed {
		msg = source
	}
	attrs := []slog.Attr{slog.String("key", f.cfg.Key), slog.Uint64("version", version)}
	if err != nil {
		attrs = append(attrs, slog.String("err", err.Error()))
	}
	f.cfg.Logger.LogAttrs(context.Background(), level, msg, attrs...)
}

// meta does one operation on metadata. A panic of the MetaStore is an error: who reads
// beside the use has no caller whom it could reach.
func meta(ctx context.Context, m MetaStore, op store.MetaOp) (found []store.Record, err error) {
	err = safely("the MetaStore", func() (err error) {
		found, err = m.Meta(ctx, op)
		return err
	})
	return found, err
}

// safely returns the error of fn, or one that says what it panics with.
func safely(what string, fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("registry: panic of %s: %v", what, v)
		}
	}()
	return fn()
}

package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A subscription says what it has heard, but of its own server. Where that may be
// another one than the server that executes, as with sentinels, the latter is asked, in
// the way that exchanges take, whether it has the subscription: by the name of a channel
// that nobody else subscribes to. If it has, at two times, and was the same primary in
// between, as its replication id says, then all that it executed was heard of, as far as
// the subscription has answered. A primary that does not know yet that it was replaced
// says so, too: an exchange would be executed by it as well, and tell no more.

// ownPrefix is what the names of such channels begin with. They are no hashes' names.
const ownPrefix = prefix + "{.watch}:"

// listen subscribes to hints, and to a channel of its own if the server that executes
// may be another one; own is "" if not, or if the user may not.
func (s *Store) listen(ctx context.Context) (sub *redis.PubSub, own string, err error) {
	if s.follows {
		own = ownPrefix + rand.Text()
		sub := s.client.PSubscribe(ctx, prefix+"*")
		if _, err = sub.Receive(ctx); err == nil {
			if err = sub.Subscribe(ctx, own); err == nil {
				_, err = sub.Receive(ctx)
			}
		}
		if err == nil {
			return sub, own, nil
		}
		sub.Close()
		if !redis.HasErrorPrefix(err, "NOPERM") {
			return nil, "", err
		}
	}
	// A pattern, so that the hints of a key are heard from its first exchange on.
	sub = s.client.PSubscribe(ctx, prefix+"*")
	if _, err := sub.Receive(ctx); err != nil {
		sub.Close()
		return nil, "", err
	}
	return sub, "", nil
}

// prove finds out, again and again, whether the server that executes has the
// subscription. One that it does not have any more is replaced, and so is, now and then,
// one that it never had.
func (w *watch) prove() {
	defer w.s.work.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	misses := 0 // in a row
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(w.s.beat())
		w.mu.Lock()
		own, had := w.own, !w.proved.IsZero()
		w.mu.Unlock()
		if own == "" {
			continue
		}
		asked := time.Now()
		ctx, cancel := context.WithTimeout(w.ctx, quiet)
		has, err := w.s.has(ctx, own)
		cancel()
		if err != nil {
			continue
		}
		w.mu.Lock()
		if has = has && w.own == own && !w.renewed; has {
			w.proved, misses = asked, 0
		} else {
			misses++
		}
		w.mu.Unlock()
		// One that never was with that server is not made anew each time, since it may be
		// the way there that leads to two.
		if !has && (had || misses%4 == 0) {
			w.renew()
		}
	}
}

// has reports whether the server that executes is a primary, and has a subscription to
// own. When it is not the one that executed before, subscriptions are renewed.
func (s *Store) has(ctx context.Context, own string) (bool, error) {
	p := s.client.Pipeline() // one connection, to one server
	info := p.Info(ctx, "replication")
	subs := p.PubSubNumSub(ctx, own)
	if _, err := p.Exec(ctx); err != nil {
		return false, err
	}
	_, id, ok := strings.Cut(info.Val(), "master_replid:")
	if !ok || len(id) < 40 || !strings.Contains(info.Val(), "role:master") {
		return false, errors.New("redisstore: no primary")
	}
	s.executes(id[24:40]) // as an epoch begins
	s.bounded(info.Val())
	return subs.Val()[own] == 1, nil
}

// bounded warns, once, of a primary that another may replace and that would not stop by
// itself then, by its INFO: which counts its good replicas if it needs some.
func (s *Store) bounded(info string) {
	if strings.Contains(info, "min_slaves_good_slaves:") || s.cfg.Master == "" && strings.Contains(info, "connected_slaves:0\r") {
		return
	}
	s.unbound.Do(func() {
		s.cfg.Logger.Warn("redisstore: the primary has no min-replicas-to-write: if it is replaced while it is cut off, it grants for as long as it is reached", "store", s.String())
	})
}

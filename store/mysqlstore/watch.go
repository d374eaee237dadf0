package mysqlstore

import (
	"context"
	"database/sql"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/flyball-go/flyball/store"
)

// Watch has hint called from the poller, with what has changed since it was called
// last: by whichever process, this one included.
func (s *Store) Watch(ctx context.Context, hint func(store.Hint)) (stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	s.watches++
	id := s.watches
	s.watchers[id] = hint
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, id)
	}, nil
}

// slack is how much later a row may be seen than the time that it says: as long as the
// write takes, with its waits for locks.
const slack = 5 * time.Second

// news is what the poller has told already.
type news struct {
	last  int64            // the latest time; 0: it begins anew
	told  map[string]int64 // not older than slack before it
	asked time.Time        // when it was looked for, with success
}

// poll asks for news until the Store is closed, and now and then removes the rows
// that are idle.
func (s *Store) poll() {
	n := news{told: make(map[string]int64)}
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	sweep := time.Now()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		s.ask(ctx, &n)
		if now := time.Now(); !now.Before(sweep) {
			s.sweep(ctx)
			sweep = now.Add(time.Minute/2 + rand.N(time.Minute))
		}
		cancel()
	}
}

// ask hints at what is new. What it cannot ask for now it asks for the next time.
func (s *Store) ask(ctx context.Context, n *news) {
	s.mu.Lock()
	nobody := len(s.watchers) == 0
	s.mu.Unlock()
	if nobody {
		n.last = 0
		return
	}
	type one struct {
		key string
		at  int64
	}
	var all []one
	var now int64 // of the server
	asked, first := time.Now(), n.last == 0
	err := s.run(ctx, tries, func(ctx context.Context, ss *session) (err error) {
		all = all[:0]
		if first { // from now on
			_, now, err = s.epoch(ctx, ss)
			return err
		}
		return ss.query(ctx, s.q.news, func(r *sql.Rows) error {
			var k one
			err := r.Scan(&k.key, &k.at)
			if k.key == "" {
				now = k.at
			} else {
				all = append(all, k)
			}
			return err
		}, n.last-slack.Microseconds())
	})
	if err != nil {
		return
	}
	// What is written from here on is told the next time, so who watches from here on
	// misses nothing.
	s.mu.Lock()
	watchers := maps.Clone(s.watchers)
	s.mu.Unlock()
	if first {
		n.last, n.asked = now, asked
		return
	}
	// Nothing was written since the last time with a time that is not looked for, by
	// a clock that was set back.
	complete := now-asked.Sub(n.asked).Microseconds() > n.last-slack.Microseconds()/2
	var keys []string
	for _, k := range all {
		if n.told[k.key] < k.at {
			n.told[k.key] = k.at
			keys = append(keys, k.key)
		}
		n.last = max(n.last, k.at)
	}
	n.asked = asked
	maps.DeleteFunc(n.told, func(_ string, at int64) bool { return at <= n.last-slack.Microseconds() })
	if len(all) > 1000 { // and there are more: begin anew
		keys, n.last = []string{""}, 0
	}
	for id, hint := range watchers {
		for _, k := range keys {
			if !s.watched(id) {
				break
			}
			hint(store.Hint{Key: k})
		}
	}
	if complete {
		s.heard.Store(&asked)
	}
}

// HeardUntil returns when the poller asked for what it has told last; the zero Time when
// it has not yet. It goes by the time that rows say, which is not older than some
// seconds when they are committed: a process that is stopped for longer between the
// write and the commit of an exchange that had to lock may have a hint of its own come
// late.
func (s *Store) HeardUntil() time.Time {
	if t := s.heard.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

func (s *Store) watched(id int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watchers[id] != nil
}

// sweep counts the rows, and removes those that tell nothing any more. What it cannot
// do now it does the next time.
func (s *Store) sweep(ctx context.Context) {
	var idle []string
	s.run(ctx, tries, func(ctx context.Context, ss *session) error {
		idle = idle[:0]
		return ss.query(ctx, s.q.idle, func(r *sql.Rows) error {
			var key string
			err := r.Scan(&key)
			idle = append(idle, key)
			return err
		})
	})
	for _, key := range idle { // each alone, so that nobody waits for long
		s.run(ctx, tries, func(ctx context.Context, ss *session) error {
			_, err := ss.exec(ctx, s.q.forget, key)
			return err
		})
	}
	s.run(ctx, tries, func(ctx context.Context, ss *session) error {
		return ss.query(ctx, s.q.count, func(r *sql.Rows) error {
			var n int64
			err := r.Scan(&n)
			s.keys.Store(n - 1) // without the fence
			return err
		})
	})
}

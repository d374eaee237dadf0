package mysqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/store"
)

// fence says whether what is in the tables is all that was ever granted. It is kept
// in the table that it is about, so that who empties that loses it as well.
type fence struct {
	Server  string `json:"server"`
	Boot    int64  `json:"boot"` // in seconds since 1970
	Durable bool   `json:"durable"`
	Lost    int64  `json:"lost_us"` // when state may have been lost last, 0: never

	epoch string
}

// at reports whether f is of the server at p, not restarted since.
func (f *fence) at(p place) bool {
	return f.Server == p.name && f.Durable == p.durable && f.Boot == p.boot
}

// holds reports whether what f was told of is there at p.
func (f *fence) holds(p place) bool {
	return f.at(p) || f.Server == p.name && f.Durable && p.durable
}

// lost reports whether somebody may have been granted something under a key that has
// no state.
func (f *fence) lost(now int64) bool {
	return f.Lost != 0 && now < f.Lost+int64(store.MaxCool/time.Microsecond)
}

// arrive checks that a new session is where the fence says, and changes that if it is
// not.
func (s *Store) arrive(ctx context.Context, ss *session) error {
	if f := s.current(); f.epoch != "" && f.at(ss.at) {
		return nil
	}
	return s.refence(ctx, ss)
}

// current is the fence as this process knows it.
func (s *Store) current() fence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fence
}

// refence reads the fence, and begins a new epoch when it is gone, or does not hold
// where the session is. The session must be in no transaction, and is in none after.
func (s *Store) refence(ctx context.Context, ss *session) (err error) {
	defer func() {
		if err != nil {
			ss.rollback(ctx)
		}
	}()
	var f fence
	var now int64
	for try := 0; ; try++ {
		if err := ss.begin(ctx); err != nil {
			return err
		}
		var text []byte
		err := ss.query(ctx, s.q.fenceLock, func(r *sql.Rows) error { return r.Scan(&f.epoch, &text, &now) })
		if err != nil {
			return err
		}
		if f.epoch != "" {
			if json.Unmarshal(text, &f) != nil || f.Server == "" && f.Lost >= 0 {
				return fmt.Errorf("%w: garbage for the fence, the row of the empty key", store.ErrInvalid)
			}
			break
		}
		// By itself: two that lock what is not there and then insert it would wait for
		// each other.
		if ss.rollback(ctx); try == 3 {
			return errAgain
		}
		if _, err := ss.exec(ctx, s.q.fencePlant, newEpoch(), `{"lost_us":-1}`); err != nil {
			return err
		}
	}
	next := f
	if f.Lost < 0 || !f.holds(ss.at) {
		next.epoch, next.Lost = newEpoch(), now
	}
	if !f.at(ss.at) {
		next.Server, next.Boot, next.Durable = ss.at.name, ss.at.boot, ss.at.durable
	}
	if next != f {
		text, err := json.Marshal(next)
		if err != nil {
			return err
		}
		if _, err := ss.exec(ctx, s.q.fenceWrite, next.epoch, text); err != nil {
			return err
		}
	}
	if err := ss.commit(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.fence = next
	s.mu.Unlock()
	return nil
}

func newEpoch() string { return rand.Text() }

// newFence is the row of new tables, at p: nobody has been granted anything. It says
// where it is from the beginning, since what is changed later could be lost.
func newFence(p place) (epoch string, text []byte, err error) {
	text, err = json.Marshal(fence{Server: p.name, Boot: p.boot, Durable: p.durable})
	return newEpoch(), text, err
}

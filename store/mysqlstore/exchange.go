package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flyball-go/flyball/store"
)

// batch is how many keys a transaction has at most: what it locks others wait for.
const batch = 64

// Exchange executes the items in transactions of up to 64 keys. Items of a row that is
// garbage, of a key for which there is no room, or of a transaction that failed have
// Answer.Err, if others have an answer.
func (s *Store) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if err := store.CheckExchange(node, items); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, notExecuted(err)
	}
	if s.ctx.Err() != nil {
		return nil, store.ErrClosed
	}
	x := exchange{node: node, items: items, answers: make([]store.Answer, len(items)), byKey: make(map[string][]int, len(items))}
	for i := range items {
		x.byKey[items[i].Key] = append(x.byKey[items[i].Key], i)
	}
	// In the order in which they are locked, in all processes: so nobody waits for
	// who waits for him.
	for part := range slices.Chunk(slices.Sorted(maps.Keys(x.byKey)), batch) {
		err := s.transact(ctx, func(ctx context.Context, ss *session) error { return s.exchange(ctx, ss, &x, part) })
		for _, key := range part {
			if err != nil {
				x.fail(key, err)
			}
		}
	}
	return x.result()
}

// exchange is one Exchange under way.
type exchange struct {
	node    store.Node
	items   []store.Item
	byKey   map[string][]int // indices of items
	answers []store.Answer
}

// fail says that the items of key have no answer.
func (x *exchange) fail(key string, err error) {
	for _, i := range x.byKey[key] {
		x.answers[i] = store.Answer{Node: x.node, Key: key, Seq: x.items[i].Seq, Err: err}
	}
}

// result is an error when no item has an answer: one that is not definite, if there is
// such a one.
func (x *exchange) result() ([]store.Answer, error) {
	var err error
	for i := range x.answers {
		e := x.answers[i].Err
		if e == nil {
			return x.answers, nil
		}
		if err == nil || !definite(e) {
			err = e
		}
	}
	return x.answers, err
}

// exchange executes the items of keys, which are sorted: it locks the rows, changes the
// state of each, and writes them.
func (s *Store) exchange(ctx context.Context, ss *session, x *exchange, keys []string) error {
	rows, f, full, err := s.lock(ctx, ss, keys)
	if err != nil {
		return err
	}
	changed := make([]row, 0, len(rows))
	for _, key := range keys {
		i := slices.IndexFunc(rows, func(r row) bool { return r.key == key })
		if i < 0 {
			x.fail(key, full)
			continue
		}
		r := rows[i]
		if err := s.decide(x, &r, f); err != nil {
			x.fail(key, err)
			continue
		}
		changed = append(changed, r)
	}
	return s.write(ctx, ss, changed)
}

// decide executes the items of a row's key.
func (s *Store) decide(x *exchange, r *row, f fence) error {
	cfg := store.StateConfig{Now: r.now(), TTL: s.cfg.TTL, Epoch: f.epoch, MaxNodes: s.cfg.MaxNodes}
	// Who was told the epoch has seen the row: if it is new, it was deleted by hand.
	told := slices.ContainsFunc(x.byKey[r.key], func(i int) bool { return x.items[i].Epoch == f.epoch })
	st, err := r.open(cfg, f, told)
	if err != nil {
		return err
	}
	news := false
	for _, i := range x.byKey[r.key] {
		a, tell, err := st.Exchange(cfg, x.node, &x.items[i])
		if err != nil {
			return err
		}
		x.answers[i], news = a, news || tell
	}
	return r.close(st, f.epoch, news)
}

// lock returns the locked rows of keys, and the fence that they are read by. Those
// that are not there are made first; full says why some are missing all the same.
func (s *Store) lock(ctx context.Context, ss *session, keys []string) (rows []row, f fence, full, err error) {
	// Numbers of placeholders are powers of two, so that there are few statements.
	size := 1
	for size < len(keys) {
		size *= 2
	}
	args := make([]any, size)
	for i := range args {
		args[i] = keys[min(i, len(keys)-1)]
	}
	for range 4 {
		f = s.current()
		rows = make([]row, 0, len(keys))
		foreign := false
		err = ss.query(ctx, s.q.lock(size), func(found *sql.Rows) error {
			r, err := scan(found, ss.where)
			rows = append(rows, r)
			foreign = foreign || r.epoch != f.epoch
			return err
		}, args...)
		if err != nil {
			return nil, f, nil, err
		}
		epoch, there := f.epoch, len(rows) == len(keys) || full != nil // why those that are missing are
		if foreign && there {
			// Who writes a row of a new epoch has written the fence before: with the
			// row locked we see it. If there is none, the row is of an old one.
			if epoch, _, err = s.epoch(ctx, ss); err != nil {
				return nil, f, nil, err
			}
		}
		if there && epoch == f.epoch {
			return rows, f, full, nil
		}
		if !ss.rollback(ctx) {
			return nil, f, nil, errAgain
		}
		if there {
			err = s.refence(ctx, ss)
		} else if err = s.plant(ctx, ss, keys, rows); errors.Is(err, store.ErrTooMany) {
			full, err = err, nil
		}
		if err != nil {
			return nil, f, nil, err
		}
	}
	return nil, f, nil, errAgain
}

// epoch reads that of the fence, "" if there is none, and the server's time.
func (s *Store) epoch(ctx context.Context, ss *session) (epoch string, now int64, err error) {
	err = ss.query(ctx, s.q.fenceRead, func(r *sql.Rows) error { return r.Scan(&epoch, &now) })
	return epoch, now, err
}

// plant makes rows for those of keys that have none, in a transaction of its own: to
// lock what is not there would lock the gaps.
func (s *Store) plant(ctx context.Context, ss *session, keys []string, have []row) error {
	if n := int(s.keys.Load()) + len(keys) - len(have); n > s.cfg.MaxKeys {
		return fmt.Errorf("%w: %d keys", store.ErrTooMany, n)
	}
	epoch, now, err := s.epoch(ctx, ss)
	if err != nil {
		return err
	}
	if !ss.rollback(ctx) {
		return errAgain
	}
	if epoch != s.current().epoch {
		if err := s.refence(ctx, ss); err != nil {
			return err
		}
	}
	epoch = s.current().epoch
	for _, key := range keys {
		if slices.ContainsFunc(have, func(r row) bool { return r.key == key }) {
			continue
		}
		if _, err := ss.exec(ctx, s.q.seed, key, epoch, now+int64(time.Hour/time.Microsecond)); err != nil {
			return err
		}
		s.keys.Add(1)
	}
	_, err = ss.conn.ExecContext(ctx, "COMMIT")
	return err
}

// write writes rows, by as few statements as powers of two allow.
func (s *Store) write(ctx context.Context, ss *session, rows []row) error {
	for len(rows) > 0 {
		n := 1
		for 2*n <= len(rows) {
			n *= 2
		}
		args := make([]any, 0, 7*n)
		for i := range rows[:n] {
			args = rows[i].values(args)
		}
		if _, err := ss.exec(ctx, s.q.write(n), args...); is(err, errNull) {
			return errAgain // another version, though it was locked
		} else if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

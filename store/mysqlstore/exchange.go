package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/flyball-go/flyball/store"
)

// batch is how many keys are exchanged together at most: what a statement locks others
// wait for.
const batch = 64

// bold is how often an exchange is tried without a lock.
const bold = 3

// Exchange executes the items by statements of up to 64 keys, each of which is executed
// as a whole or not at all. Items of a row that is garbage, of a key for which there is
// no room, or of a statement that failed have Answer.Err, if others have an answer.
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
		err := s.grant(ctx, &x, part)
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

// grant executes the items of keys, which are sorted. First without a lock: a row that
// others change between the read and the write is read and decided anew. Each time
// somebody else has come through, so all together go on; but one who is further away
// than the rest might lose each time, and where many want one row, most of what they
// decide would be in vain. So after a few times, or when somebody holds a lock, it locks
// the rows itself: locks are handed on in the order in which they were asked for.
func (s *Store) grant(ctx context.Context, x *exchange, keys []string) error {
	left := bold
	return s.run(ctx, bold+tries, func(ctx context.Context, ss *session) error {
		locks := left == 0
		err := s.exchange(ctx, ss, x, keys, locks)
		if left = max(0, left-1); is(err, errLockWait) {
			left = 0
		}
		return err
	})
}

// exchange reads the rows of keys, changes the state of each, and writes them.
//
// Between the two a process may be stopped for as long as it likes, and nobody waits for
// it, unless it locks. What it writes then is right: the rows are those that it has read,
// else they have another version, so it is as if all had happened at the time of the
// read, which it was decided at. That was after the request was sent, from when on its
// node counts what it is granted; and who comes next goes by his own time, or that of
// the state, whichever is later.
func (s *Store) exchange(ctx context.Context, ss *session, x *exchange, keys []string, locks bool) error {
	rows, f, full, err := s.find(ctx, ss, keys, locks)
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
	if err := s.write(ctx, ss, changed); err != nil || !locks {
		return err
	}
	return done(ss.commit(ctx))
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

// find returns the rows of keys, and the fence that they are read by; if locks, in a
// transaction that has locked them. Those that are not there are made first; full says
// why some are missing all the same.
func (s *Store) find(ctx context.Context, ss *session, keys []string, locks bool) (rows []row, f fence, full, err error) {
	size := padded(len(keys))
	args := make([]any, size)
	for i := range args {
		args[i] = keys[min(i, len(keys)-1)]
	}
	query := s.q.read(size)
	if locks {
		query = s.q.lock(size)
	}
	planted := false
	for range 4 {
		if locks {
			if err := ss.begin(ctx); err != nil {
				return nil, f, nil, err
			}
		}
		f = s.current()
		rows = make([]row, 0, len(keys))
		foreign := false
		err = ss.query(ctx, query, func(found *sql.Rows) error {
			r, err := scan(found, ss.where)
			rows = append(rows, r)
			foreign = foreign || r.epoch != f.epoch
			return err
		}, args...)
		if err != nil {
			return nil, f, nil, err
		}
		epoch, there := f.epoch, len(rows) == len(keys) || full != nil // why those that are missing are
		if there && (foreign || planted) {
			// Who writes a row of a new epoch has written the fence before: who sees the
			// row sees that. If there is none, the row is of an old one; should it get
			// that of a new one from here on, it has another version. And rows that were
			// made just now may be in a table that was emptied just before.
			if epoch, _, err = s.epoch(ctx, ss); err != nil {
				return nil, f, nil, err
			}
		}
		if there && epoch == f.epoch {
			return rows, f, full, nil
		}
		if locks && !ss.rollback(ctx) {
			return nil, f, nil, errAgain
		}
		if there {
			err = s.refence(ctx, ss)
		} else if err = s.plant(ctx, ss, keys, rows); errors.Is(err, store.ErrTooMany) {
			full, err = err, nil
		} else {
			planted = true
		}
		if err != nil {
			return nil, f, nil, err
		}
	}
	return nil, f, nil, errAgain
}

// epoch reads that of the fence, "" if there is none, and the server's time.
func (s *Store) epoch(ctx context.Context, ss *session) (epoch string, now int64, err error) {
	err = ss.query(ctx, s.q.fenceRead, func(r *sql.Rows) error {
		var at string
		if err := r.Scan(&epoch, &now, &at); err != nil {
			return err
		}
		if at != ss.where {
			return errElsewhere
		}
		return nil
	})
	return epoch, now, err
}

// plant makes rows for those of keys that have none, by a statement of its own: to
// lock what is not there would lock the gaps.
func (s *Store) plant(ctx context.Context, ss *session, keys []string, have []row) error {
	missing := make([]string, 0, len(keys))
	for _, key := range keys {
		if !slices.ContainsFunc(have, func(r row) bool { return r.key == key }) {
			missing = append(missing, key)
		}
	}
	if n := int(s.keys.Load()) + len(missing); n > s.cfg.MaxKeys {
		return fmt.Errorf("%w: %d keys", store.ErrTooMany, n)
	}
	epoch, _, err := s.epoch(ctx, ss)
	if err != nil {
		return err
	}
	if epoch != s.current().epoch {
		if err := s.refence(ctx, ss); err != nil {
			return err
		}
	}
	epoch = s.current().epoch
	size := padded(len(missing))
	args := make([]any, 0, 2*size)
	for i := range size { // those that are there already are left alone
		args = append(args, missing[min(i, len(missing)-1)], epoch)
	}
	if _, err := ss.exec(ctx, s.q.seed(size), args...); err != nil {
		return err
	}
	s.keys.Add(int64(len(missing)))
	return nil
}

// write writes rows by one statement, which writes all of them or none. Outside of a
// transaction they are committed then, or, after an unsure, may be.
func (s *Store) write(ctx context.Context, ss *session, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	last, size := len(rows)-1, padded(len(rows))
	args := append(make([]any, 0, 2+8*size), ss.where)
	for i := range size {
		args = append(args, rows[min(i, last)].key)
	}
	args = append(args, len(rows))
	for i := range rows {
		args = rows[i].values(args)
	}
	pad := row{key: rows[last].key, epoch: rows[last].epoch, last: rows[last].last, idle: rows[last].idle, state: []byte{}}
	for range size - len(rows) {
		args = pad.values(args)
	}
	st, err := ss.stmt(ctx, s.q.write(size))
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	switch _, err = st.ExecContext(ctx, args...); {
	case is(err, errNull):
		return errAgain // a row has another version, or is gone
	case is(err, errTwoRows):
		return errElsewhere
	case ss.begun:
		return err
	}
	return done(err)
}

package mysqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// testKeys are of rows that selfTest writes and takes back: they are no keys.
var testKeys = []string{"!1", "!2", "!3"}

// errTested ends the transaction of a selfTest that went well.
var errTested = errors.New("mysqlstore: tested")

// selfTest has the server execute the statements on which everything rests, with
// known values, and takes them back: what is written is read again, byte by byte, a
// row of another version is not written, and a number is counted up.
func (s *Store) selfTest(ctx context.Context) error {
	err := s.transact(ctx, func(ctx context.Context, ss *session) error {
		if err := s.tested(ctx, ss); err != nil {
			return err
		}
		return errTested // so that it is rolled back
	})
	if errors.Is(err, errTested) {
		return nil
	}
	if is(err, errNoTable, errNoColumn) {
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return err
}

func (s *Store) tested(ctx context.Context, ss *session) error {
	wrong := func(what string) error { return fmt.Errorf("mysqlstore: self-test: the server %s", what) }
	blob := make([]byte, 1024)
	for i := range blob {
		blob[i] = byte(i*7 + i/256)
	}
	var rows []row
	for i, k := range testKeys {
		if _, err := ss.exec(ctx, s.q.seed, k, "test", 1); err != nil {
			return err
		}
		rows = append(rows, row{key: k, epoch: "another", version: 1, last: 1<<53 + 1, state: blob[i:], news: 1<<53 + 2, idle: 1<<53 + 3})
	}
	read := func() (found []row, err error) {
		err = ss.query(ctx, s.q.lock(4), func(r *sql.Rows) error {
			one, err := scan(r, ss.where)
			found = append(found, one)
			return err
		}, testKeys[2], testKeys[0], testKeys[1], testKeys[1])
		return found, err
	}
	if err := s.write(ctx, ss, rows); err != nil { // two, and one
		return err
	}
	found, err := read()
	if err != nil {
		return err
	}
	if len(found) != len(rows) {
		return wrong(fmt.Sprintf("returns %d rows of %d", len(found), len(rows)))
	}
	for i, r := range found {
		if w := rows[i]; r.key != w.key || r.epoch != w.epoch || r.version != w.version || r.last != w.last || !bytes.Equal(r.state, w.state) {
			return wrong(fmt.Sprintf("returns %s %s %d %d with %d bytes, and was told %s %s %d %d with %d", r.key, r.epoch, r.version, r.last, len(r.state), w.key, w.epoch, w.version, w.last, len(w.state)))
		}
		if r.now().UnixMicro() < 1e15 { // 2001
			return wrong(fmt.Sprintf("has the time %v", r.now()))
		}
	}
	rows[1].version = 3
	if err := s.write(ctx, ss, rows[1:2]); !errors.Is(err, errAgain) {
		return wrong(fmt.Sprintf("writes a row of another version: %v", err))
	}
	rows[0].version = 2
	if err := s.write(ctx, ss, rows[:2]); !errors.Is(err, errAgain) {
		return wrong(fmt.Sprintf("writes two rows, one of another version: %v", err))
	}
	if found, err = read(); err != nil || found[0].version != 1 || found[1].version != 1 {
		return wrong(fmt.Sprintf("has written rows of another version: %v", err))
	}
	var was [2]int64
	for i := range was {
		r, err := ss.exec(ctx, s.q.metaNext)
		if err == nil {
			was[i], err = r.LastInsertId()
		}
		if err != nil {
			return err
		}
	}
	if was[0] < 1 || was[1] != was[0]+1 {
		return wrong(fmt.Sprintf("counts from %d to %d", was[0], was[1]))
	}
	return nil
}

package mysqlstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
)

// errTested ends the transaction of a selfTest that went well.
var errTested = errors.New("mysqlstore: tested")

// selfTest has the server execute the statements on which everything rests, with
// known values, and takes them back: what is written is read again, byte by byte,
// what is to be refused is not written, and a number is counted up.
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
	// Of rows that are taken back: they are no keys. Each test has its own, since many who
	// insert the same ones, and take them back, deadlock. That of the last is not there.
	mark := "!" + rand.Text()
	keys := []string{mark + "1", mark + "2", mark + "3", mark + "4"}
	blob := make([]byte, 1024)
	for i := range blob {
		blob[i] = byte(i*7 + i/256)
	}
	if _, err := ss.exec(ctx, s.q.seed(4), keys[0], "test", keys[1], "test", keys[2], "test", keys[2], "test"); err != nil {
		return err
	}
	read := func() (found []row, err error) {
		err = ss.query(ctx, s.q.lock(4), func(r *sql.Rows) error {
			one, err := scan(r, ss.where)
			found = append(found, one)
			return err
		}, keys[3], keys[2], keys[0], keys[1])
		if err == nil && len(found) != 3 {
			err = wrong(fmt.Sprintf("returns %d rows of 3", len(found)))
		}
		return found, err
	}
	rows, err := read()
	if err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		r.epoch, r.version, r.last, r.state, r.news, r.idle = "another", r.version+1, 1<<53+1, blob[i:], 1<<53+2, 1<<53+3
	}
	if err := s.write(ctx, ss, rows); err != nil {
		return err
	}
	found, err := read()
	if err != nil {
		return err
	}
	for i, r := range found {
		if w := rows[i]; r.key != keys[i] || r.epoch != w.epoch || r.version != w.version || r.last != w.last || !bytes.Equal(r.state, w.state) {
			return wrong(fmt.Sprintf("returns %s %s %d %d with %d bytes, and was told %s %s %d %d with %d", r.key, r.epoch, r.version, r.last, len(r.state), keys[i], w.epoch, w.version, w.last, len(w.state)))
		}
		if r.now().UnixMicro() < 1e15 { // 2001
			return wrong(fmt.Sprintf("has the time %v", r.now()))
		}
	}
	// Nothing of what follows is to be written.
	next := func(i int) row {
		r := rows[i]
		r.version++
		return r
	}
	again, gone := rows[1], row{key: keys[3], epoch: "test", version: 1, state: blob}
	elsewhere := &session{conn: ss.conn, stmts: ss.stmts, where: ss.where + "|", begun: true}
	for _, bad := range []struct {
		what string
		rows []row
		ss   *session
		want error
	}{
		{"a row of another version", []row{again}, ss, errAgain},
		{"two rows, one of another version", []row{next(0), again}, ss, errAgain},
		{"a row that is not there", []row{gone}, ss, errAgain},
		{"three rows, one of which is not there", []row{next(0), next(1), gone}, ss, errAgain},
		{"a row elsewhere than where it was read", []row{next(0)}, elsewhere, errElsewhere},
	} {
		if err := s.write(ctx, bad.ss, bad.rows); !errors.Is(err, bad.want) {
			return wrong(fmt.Sprintf("writes %s: %v", bad.what, err))
		}
	}
	if found, err = read(); err != nil {
		return err
	}
	for i, r := range found {
		if r.version != rows[i].version {
			return wrong("has written rows of another version")
		}
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

package mysqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/flyball-go/flyball/store"
)

// Meta reads and changes the table meta: k is the key, meta its JSON, ver its version.
func (s *Store) Meta(ctx context.Context, op store.MetaOp) (found []store.Record, err error) {
	if err := store.CheckMeta(op); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, notExecuted(err)
	}
	if s.ctx.Err() != nil {
		return nil, store.ErrClosed
	}
	err = s.transact(ctx, func(ctx context.Context, ss *session) error {
		found = nil
		switch op.Do {
		case store.Get:
			return s.read(ctx, ss, &found, s.q.metaGet, op.Key)
		case store.List:
			most := op.Limit
			if most == 0 {
				most = 100
			}
			// Keys have none of the characters that LIKE takes for others.
			return s.read(ctx, ss, &found, s.q.metaList, op.Key+"%", most)
		case store.Delete:
			return s.remove(ctx, ss, op)
		}
		r, err := s.replace(ctx, ss, op)
		found = []store.Record{r}
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// read appends the records that query finds.
func (s *Store) read(ctx context.Context, ss *session, found *[]store.Record, query string, args ...any) error {
	return ss.query(ctx, query, func(rows *sql.Rows) error {
		var r store.Record
		var value []byte
		if err := rows.Scan(&r.Key, &value, &r.Version); err != nil {
			return fmt.Errorf("%w: garbage for metadata: %w", store.ErrInvalid, err)
		}
		if store.CheckKey(r.Key) != nil || r.Version == 0 || !json.Valid(value) {
			return fmt.Errorf("%w: garbage for metadata, of key %.40q", store.ErrInvalid, r.Key)
		}
		r.Value = value
		*found = append(*found, r)
		return nil
	}, args...)
}

func conflict(op store.MetaOp) error {
	return fmt.Errorf("%w: %s has not version %d", store.ErrConflict, op.Key, op.Version)
}

// replace writes a record, with a version that no other had before it: the counter
// is of all keys, so that one that was deleted does not begin anew. Its row is locked
// first, so that those who write wait for each other, and never in a circle.
func (s *Store) replace(ctx context.Context, ss *session, op store.MetaOp) (r store.Record, err error) {
	counted, err := ss.exec(ctx, s.q.metaNext)
	if err != nil {
		return r, err
	}
	next, err := counted.LastInsertId()
	if err != nil || next < 2 {
		return r, fmt.Errorf("%w: no counter of versions (%d, %w)", store.ErrInvalid, next, err)
	}
	r = store.Record{Key: op.Key, Value: append(json.RawMessage(nil), op.Value...), Version: uint64(next)}
	// As a string: MySQL takes no JSON of bytes.
	if op.Version == 0 {
		_, err = ss.exec(ctx, s.q.metaAdd, op.Key, string(op.Value), next)
		if is(err, errDuplicate) {
			err = conflict(op)
		}
		return r, badText(err)
	}
	changed, err := ss.exec(ctx, s.q.metaSet, string(op.Value), next, op.Key, op.Version)
	return r, badText(one(changed, err, op))
}

func (s *Store) remove(ctx context.Context, ss *session, op store.MetaOp) error {
	if op.Version == 0 { // it is to be not there
		var found []store.Record
		err := s.read(ctx, ss, &found, s.q.metaGet, op.Key)
		if err == nil && len(found) > 0 {
			err = conflict(op)
		}
		return err
	}
	changed, err := ss.exec(ctx, s.q.metaDrop, op.Key, op.Version)
	return one(changed, err, op)
}

// one is a conflict unless one row was changed.
func one(changed sql.Result, err error, op store.MetaOp) error {
	if err != nil {
		return err
	}
	if n, err := changed.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return conflict(op)
}

// badText says of a value that the server takes for no JSON, bytes that are no UTF-8
// say, that it is invalid.
func badText(err error) error {
	if is(err, errBadText, errInvalidJSON, errConstraint) {
		return fmt.Errorf("%w: MetaOp.Value: %w", store.ErrInvalid, err)
	}
	return err
}

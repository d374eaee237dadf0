package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// CheckMeta returns an error that matches ErrInvalid when op makes no sense: what
// every engine checks first.
func CheckMeta(op MetaOp) error {
	if op.Do > List {
		return fmt.Errorf("%w: MetaOp.Do is %d", ErrInvalid, op.Do)
	}
	if op.Do != List || op.Key != "" {
		if err := CheckKey(op.Key); err != nil {
			return err
		}
	}
	if op.Limit < 0 || op.Limit > 1000 {
		return fmt.Errorf("%w: MetaOp.Limit is %d, want 0 up to 1000", ErrInvalid, op.Limit)
	}
	if op.Do == Put && (len(op.Value) > 8<<10 || !json.Valid(op.Value)) {
		return fmt.Errorf("%w: MetaOp.Value, of %d bytes, is no JSON of up to 8 KiB", ErrInvalid, len(op.Value))
	}
	return nil
}

// Meta reads and changes metadata.
func (m *Memory) Meta(ctx context.Context, op MetaOp) ([]Record, error) {
	if err := CheckMeta(op); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotExecuted, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if op.Do == List {
		return m.list(op), nil
	}
	old, found := m.meta[op.Key]
	if op.Do != Get && old.Version != op.Version {
		return nil, fmt.Errorf("%w: %s has version %d, not %d", ErrConflict, op.Key, old.Version, op.Version)
	}
	switch {
	case op.Do == Get && found:
		return []Record{old.clone()}, nil
	case op.Do == Put:
		m.metaLast++ // of all keys, so that a deleted one does not begin anew
		r := Record{op.Key, bytes.Clone(op.Value), m.metaLast}
		m.meta[op.Key] = r
		return []Record{r.clone()}, nil
	case op.Do == Delete:
		delete(m.meta, op.Key)
	}
	return nil, nil
}

func (m *Memory) list(op MetaOp) (found []Record) {
	for key, r := range m.meta {
		if strings.HasPrefix(key, op.Key) {
			found = append(found, r.clone())
		}
	}
	slices.SortFunc(found, func(a, b Record) int { return strings.Compare(a.Key, b.Key) })
	most := op.Limit
	if most == 0 {
		most = 100
	}
	return found[:min(len(found), most)]
}

func (r Record) clone() Record {
	r.Value = bytes.Clone(r.Value)
	return r
}

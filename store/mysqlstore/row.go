package mysqlstore

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/flyball-go/flyball/store"
)

// row is what the table has of a key.
type row struct {
	key, epoch string
	version    uint64 // one more with each change; it begins with the time at which the row was made
	last       int64  // the server's time of the last change, in microseconds since 1970
	state      []byte

	utc, sys int64 // of the statement that read it: see the constants

	news, idle int64
}

// scan reads a row, which has to be from where the session is.
func scan(rows *sql.Rows, where string) (r row, err error) {
	var at string
	if err := rows.Scan(&r.key, &r.epoch, &r.version, &r.last, &r.state, &r.utc, &r.sys, &at); err != nil {
		return r, fmt.Errorf("%w: garbage for a row: %w", store.ErrInvalid, err)
	}
	if at != where {
		return r, errElsewhere
	}
	return r, nil
}

// now is the server's time when the row was read: with the lock held, if it was locked.
// SYSDATE says so, but in some time zone: if that is not UTC, it is further from the time
// at which the statement began than anybody waits for a lock.
func (r *row) now() time.Time {
	now := r.utc
	if wait := r.sys - r.utc; wait > 0 && wait < int64(time.Minute/time.Microsecond) {
		now = r.sys
	}
	return time.UnixMicro(now)
}

// open returns the state of r: a new one if nobody has written one yet, and a lost
// one if what was written is of another epoch than f, or is gone and somebody was told
// of it.
func (r *row) open(cfg store.StateConfig, f fence, told bool) (*store.State, error) {
	now := cfg.Now.UnixMicro()
	if r.last == 0 && len(r.state) == 0 {
		return store.NewState(cfg, told || f.lost(now) || r.epoch != f.epoch), nil
	}
	bad := func(what string) error {
		return fmt.Errorf("%w: row of key %s: %s", store.ErrInvalid, r.key, what)
	}
	if len(r.state) < crcSize || r.version == 0 {
		return nil, bad("no state")
	}
	if binary.BigEndian.Uint32(r.state) != r.sum(r.state[crcSize:]) {
		return nil, bad("its parts do not belong together")
	}
	if r.epoch != f.epoch {
		return store.NewState(cfg, true), nil
	}
	var st store.State
	if err := st.UnmarshalBinary(r.state[crcSize:]); err != nil {
		return nil, fmt.Errorf("row of key %s: %w", r.key, err)
	}
	if st.Now().UnixMicro() != r.last {
		return nil, bad("another time than its state")
	}
	return &st, nil
}

const crcSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is over everything that is read of a row, so that no part of one is taken for
// that of another.
func (r *row) sum(state []byte) uint32 {
	b := make([]byte, 0, 100)
	b = append(b, r.key...)
	b = append(b, 0)
	b = append(b, r.epoch...)
	b = append(b, 0)
	b = binary.BigEndian.AppendUint64(b, r.version)
	b = binary.BigEndian.AppendUint64(b, uint64(r.last))
	return crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, state)
}

// maxState is how long a state may be: it has to fit into a packet.
const maxState = 4 << 20

// close puts st back into r, with the next version.
func (r *row) close(st *store.State, epoch string, news bool) error {
	b, err := st.AppendBinary(make([]byte, crcSize, max(256, len(r.state)+64)))
	if err != nil {
		return err
	}
	if len(b) > maxState {
		return fmt.Errorf("%w: %d bytes of state under %s", store.ErrTooMany, len(b), r.key)
	}
	r.epoch, r.last = epoch, st.Now().UnixMicro()
	r.version++
	binary.BigEndian.PutUint32(b, r.sum(b[crcSize:]))
	r.state = b
	if r.news = 0; news {
		r.news = r.last
	}
	// By the hour, since there is an index, and not at once, since the row may be
	// needed again soon.
	const hour = int64(time.Hour / time.Microsecond)
	r.idle = (st.Idle().UnixMicro()/hour + 2) * hour
	return nil
}

// values appends the values of the columns that are written, in the order of the statement.
func (r *row) values(args []any) []any {
	return append(args, r.version, r.key, r.epoch, r.last, r.news, r.idle, r.state)
}

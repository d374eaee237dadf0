package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/flyball-go/flyball/store"
	"github.com/go-sql-driver/mysql"
)

// tries is how often something is begun that did not come to its end.
const tries = 4

// run gives do a session. When others stood in its way, or the connection was lost, do
// is called once more, after a moment, n times in all. An error matches
// store.ErrNotExecuted, or what is as definite, unless it is an unsure.
func (s *Store) run(ctx context.Context, n int, do func(context.Context, *session) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for try := 1; ; try++ {
		ss, err := s.take(ctx)
		if err != nil {
			return err
		}
		err = do(ctx, ss)
		s.put(ss, err != nil && !ss.usable(ctx, err))
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[unsure](err); ok {
			return err
		}
		if try == n || ctx.Err() != nil || !(conflicts(err) || hungUp(err)) {
			return notExecuted(err)
		}
		if try == 1 && conflicts(err) { // with one who is done by now
			continue
		}
		select {
		case <-time.After(time.Duration(1+rand.Int64N(int64(10<<try))) * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// transact runs do in a transaction and commits it.
func (s *Store) transact(ctx context.Context, do func(context.Context, *session) error) error {
	return s.run(ctx, tries, func(ctx context.Context, ss *session) error {
		if err := ss.begin(ctx); err != nil {
			return err
		}
		if err := do(ctx, ss); err != nil {
			return err // and it is rolled back, or its connection closed
		}
		return done(ss.commit(ctx)) // ctx may end from here on, and it be on its way
	})
}

// unsure is an error after which what was sent may have been executed or not.
type unsure struct{ error }

func (u unsure) Unwrap() error { return u.error }

// done says of the error of what commits whether it was executed. Most of those that the
// server sends say that it was not; but some come when it has begun to commit, and
// which those are is its own affair. So it goes by those that are known to come before.
func done(err error) error {
	if err == nil || conflicts(err) || is(err, errNoTable, errNoColumn, errFull, errReadOnly, errTooLong) {
		return err
	}
	return unsure{fmt.Errorf("mysqlstore: commit: %w", err)}
}

var (
	// errAgain is of what others have changed meanwhile.
	errAgain = errors.New("mysqlstore: changed by others")

	// errElsewhere is of a session that has come to another server, or to other
	// settings, than it began with: a proxy may do so.
	errElsewhere = errors.New("mysqlstore: the connection is not to where it was")
)

// Numbers of errors that the server sends.
const (
	errDuplicate   = 1062
	errLockWait    = 1205
	errDeadlock    = 1213
	errNull        = 1048
	errTwoRows     = 1242
	errFull        = 1114
	errReadOnly    = 1290
	errTooLong     = 1406
	errNoTable     = 1146
	errNoColumn    = 1054
	errBadText     = 1366
	errInvalidJSON = 3140 // MySQL's
	errConstraint  = 4025 // MariaDB's, of a column that is no JSON
)

// is reports whether err is one of numbers.
func is(err error, numbers ...uint16) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	for _, n := range numbers {
		if ok && e.Number == n {
			return true
		}
	}
	return false
}

// conflicts reports whether err is about what others do at the same time.
func conflicts(err error) bool {
	return errors.Is(err, errAgain) || is(err, errLockWait, errDeadlock)
}

// hungUp reports whether the connection was lost.
func hungUp(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, errElsewhere) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// definite reports whether err says that nothing was executed.
func definite(err error) bool {
	return errors.Is(err, store.ErrNotExecuted) || errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrConflict)
}

// notExecuted says of err that nothing was executed, unless it says so itself.
func notExecuted(err error) error {
	if definite(err) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrNotExecuted, err)
}

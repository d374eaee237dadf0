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

// tries is how often a transaction is begun that did not come to its end.
const tries = 4

// transact runs do in a transaction and commits it. One that was rolled back because
// of others, or lost its connection, is repeated after a moment. An error matches
// store.ErrNotExecuted, or what is as definite, unless it is that of the commit.
func (s *Store) transact(ctx context.Context, do func(context.Context, *session) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for try := 1; ; try++ {
		ss, err := s.take(ctx)
		if err != nil {
			return err
		}
		if err = do(ctx, ss); err == nil {
			// ctx may end from here on, and the commit be on its way.
			if _, err = ss.conn.ExecContext(ctx, "COMMIT"); err == nil {
				s.put(ss, false)
				return nil
			}
			s.put(ss, true)
			if !conflicts(err) { // which says that it was rolled back
				return fmt.Errorf("mysqlstore: commit: %w", err)
			}
		} else {
			s.put(ss, errors.Is(err, errElsewhere) || !ss.rollback(ctx))
		}
		if try == tries || ctx.Err() != nil || !(conflicts(err) || hungUp(err)) {
			return notExecuted(err)
		}
		select {
		case <-time.After(time.Duration(1+rand.Int64N(int64(10<<try))) * time.Millisecond):
		case <-ctx.Done():
		}
	}
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

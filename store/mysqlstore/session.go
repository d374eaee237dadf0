package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flyball-go/flyball/store"
)

// session is a connection with our settings, in which every statement commits by
// itself, but between begin and commit or rollback. It is of one goroutine at a time.
type session struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	at    place
	where string // server and settings, as every row has to say, and what writes to check
	begun bool   // a transaction, which may not be over
}

// take returns a session, which put takes back. It waits while all are in use. What
// fails matches store.ErrNotExecuted.
func (s *Store) take(ctx context.Context) (*session, error) {
	select {
	case s.tokens <- struct{}{}:
	case <-ctx.Done():
		return nil, notExecuted(ctx.Err())
	case <-s.done:
		return nil, store.ErrClosed
	}
	s.mu.Lock()
	closed := s.closed
	var ss *session
	if n := len(s.idle); n > 0 && !closed {
		ss = s.idle[n-1]
		s.idle = s.idle[:n-1]
	}
	s.mu.Unlock()
	if closed {
		<-s.tokens
		return nil, store.ErrClosed
	}
	if ss == nil {
		return s.fresh(ctx)
	}
	return ss, nil
}

// connectTimeout bounds the beginning of a session, which takes a dozen round trips.
const connectTimeout = 10 * time.Second

// fresh begins a session, for which the caller has a token. When ctx ends before the
// session is there, it is for whoever comes next: begun anew each time, it never would
// be there where an exchange has less time than that takes.
func (s *Store) fresh(ctx context.Context) (*session, error) {
	type begun struct {
		ss  *session
		err error
	}
	there := make(chan begun) // a send is taken by who still waits, or is not made
	go func() {               // ends with s.ctx; Close waits for its token
		own, cancel := context.WithTimeout(s.ctx, connectTimeout)
		defer cancel()
		ss, err := s.connect(own)
		select {
		case there <- begun{ss, err}: // with the token
		case <-ctx.Done():
			if err != nil {
				<-s.tokens
			} else {
				s.put(ss, false)
			}
		}
	}()
	select {
	case b := <-there:
		if b.err == nil {
			return b.ss, nil
		}
		<-s.tokens
		if s.ctx.Err() != nil {
			return nil, store.ErrClosed
		}
		return nil, notExecuted(b.err)
	case <-ctx.Done():
		return nil, notExecuted(ctx.Err())
	}
}

// put takes a session back. A broken one is closed.
func (s *Store) put(ss *session, broken bool) {
	s.mu.Lock()
	if broken = broken || s.closed; !broken {
		s.idle = append(s.idle, ss)
	}
	s.mu.Unlock()
	if broken {
		ss.close()
	}
	<-s.tokens
}

// close ends the connection: its settings are nothing for others.
func (ss *session) close() {
	ss.conn.Raw(func(any) error { return driver.ErrBadConn })
	ss.conn.Close()
}

// connect begins a session and checks where it is.
func (s *Store) connect(ctx context.Context) (_ *session, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	ss := &session{conn: conn, stmts: make(map[string]*sql.Stmt)}
	defer func() {
		if err != nil {
			ss.close()
		}
	}()
	for _, q := range []string{settings, isolated} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return nil, err
		}
	}
	at, v, err := look(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := checkSettings(v); err != nil {
		return nil, err
	}
	ss.at = at
	s.mu.Lock()
	if s.q == nil {
		s.q = newQueries(s.cfg.Prefix, ss.at.expr)
	}
	q := s.q
	s.mu.Unlock()
	if err := conn.QueryRowContext(ctx, "SELECT "+q.where).Scan(&ss.where); err != nil {
		return nil, err
	}
	if err := s.arrive(ctx, ss); err != nil {
		return nil, err
	}
	return ss, nil
}

// place is a server as a new session finds it.
type place struct {
	expr    string // that is its name
	name    string
	boot    int64 // when it was started, in seconds since 1970
	durable bool  // what is committed outlives a crash
}

// look finds out where conn is, and what its settings are.
func look(ctx context.Context, conn *sql.Conn) (p place, v map[string]string, err error) {
	v, err = pairs(ctx, conn, `SHOW VARIABLES WHERE Variable_name IN ('sql_mode', 'autocommit', 'tx_isolation', 'transaction_isolation',
		'server_uuid', 'hostname', 'port', 'server_id', 'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog')`)
	if err != nil {
		return p, v, err
	}
	p.expr, p.name = serverMySQL, v["server_uuid"]
	if p.name == "" {
		p.expr, p.name = serverMariaDB, v["hostname"]+":"+v["port"]+":"+v["server_id"]
	}
	p.durable = v["innodb_flush_log_at_trx_commit"] == "1" && (v["log_bin"] == "OFF" || v["sync_binlog"] == "1")
	p.boot, err = boot(ctx, conn)
	return p, v, err
}

// checkSettings refuses a session that has not taken our settings: with another
// sql_mode, SIMULTANEOUS_ASSIGNMENT say, statements mean something else.
func checkSettings(v map[string]string) error {
	isolation := v["tx_isolation"] // of MariaDB before 11.1
	if isolation == "" {
		isolation = v["transaction_isolation"]
	}
	if v["sql_mode"] != sqlMode || v["autocommit"] != "ON" || isolation != "READ-COMMITTED" {
		return fmt.Errorf("mysqlstore: session refused: it has sql_mode %.200q, autocommit %.20q and isolation %.20q, and was told %q, ON and READ-COMMITTED",
			v["sql_mode"], v["autocommit"], isolation, sqlMode)
	}
	return nil
}

// boot is when the server was started, in seconds since 1970. It counts whole ones,
// from one by its clock to another: so what is read within one second is exact, and
// stays the same when the clock is set.
func boot(ctx context.Context, conn *sql.Conn) (int64, error) {
	second := func() (at int64, err error) {
		err = conn.QueryRowContext(ctx, "SELECT "+utc+" DIV 1000000").Scan(&at)
		return at, err
	}
	before, err := second()
	for err == nil {
		status, e := pairs(ctx, conn, "SHOW GLOBAL STATUS LIKE 'Uptime'")
		if e != nil {
			return 0, e
		}
		up, e := strconv.ParseInt(status["Uptime"], 10, 64)
		if e != nil {
			return 0, fmt.Errorf("mysqlstore: the server has been up for %.20q seconds", status["Uptime"])
		}
		after, e := second()
		if after == before {
			return after - up, e
		}
		before, err = after, e
	}
	return 0, err
}

// pairs are the names and values that a SHOW returns.
func pairs(ctx context.Context, conn *sql.Conn, query string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		all[name] = value
	}
	return all, rows.Err()
}

// stmt is query, prepared: once in a session.
func (ss *session) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := ss.stmts[query]; st != nil {
		return st, nil
	}
	st, err := ss.conn.PrepareContext(ctx, query)
	if err == nil {
		ss.stmts[query] = st
	}
	return st, err
}

func (ss *session) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := ss.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// query calls each for every row.
func (ss *session) query(ctx context.Context, query string, each func(*sql.Rows) error, args ...any) error {
	st, err := ss.stmt(ctx, query)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// begin begins a transaction.
func (ss *session) begin(ctx context.Context) error {
	ss.begun = true
	_, err := ss.conn.ExecContext(ctx, "START TRANSACTION")
	return err
}

// commit ends it. After an error it may have been committed or not.
func (ss *session) commit(ctx context.Context) error {
	_, err := ss.conn.ExecContext(ctx, "COMMIT")
	if err == nil {
		ss.begun = false
	}
	return err
}

// usable reports whether the session can be used after err. It is in no transaction
// then.
func (ss *session) usable(ctx context.Context, err error) bool {
	if errors.Is(err, errElsewhere) {
		return false
	}
	if !ss.begun && conflicts(err) {
		return true
	}
	return ss.rollback(ctx) // who answers to that is there
}

// rollback reports whether the session can still be used.
func (ss *session) rollback(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false // the driver has closed the connection
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := ss.conn.ExecContext(ctx, "ROLLBACK")
	ss.begun = err != nil
	return err == nil
}

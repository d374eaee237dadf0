package main

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

func init() {
	add(row{id: "E3mysql/p99", what: "a cooldown heard of by each of 7 other processes, through MariaDB, 99th percentile", peer: "a row that 7 look at each 250 ms", unit: "ns",
		target: []bound{{amount, 300e6}}, measure: thrice(propagation(0.99, 8, inMariaDB))})
}

// thrice measures three passes at most.
func thrice(measure func(passes int) ([]sample, error)) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) { return measure(min(passes, 3)) }
}

// every is mysqlstore.Config.Poll, its default.
const every = 250 * time.Millisecond

// inMariaDB is a meeting in a server of its own.
func inMariaDB(ctx context.Context) (*meeting, error) {
	server, db, end, err := startMariaDB(ctx)
	if err != nil {
		return nil, err
	}
	return &meeting{
		open: func(ctx context.Context) (store.Attentive, error) {
			return mysqlstore.Open(ctx, mysqlstore.Config{DSN: server.DSN("flyball"), Poll: every, AutoMigrate: true})
		},
		peer:  func(ctx context.Context) (*circle, error) { return polled(ctx, db) },
		close: end,
	}, nil
}

// startMariaDB starts a server with an empty database, and beside what we make there a
// table of one row. It ends with end.
func startMariaDB(ctx context.Context) (server *servers.MariaDB, db *sql.DB, end func(), err error) {
	h := &servers.Host{}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if err := h.Try(func() { server = servers.StartMariaDB(h) }); err != nil {
		return nil, nil, nil, err
	}
	if db, err = sql.Open("mysql", server.DSN("")); err != nil {
		return nil, nil, nil, err
	}
	h.Cleanup(func() { db.Close() })
	for _, statement := range []string{
		"CREATE DATABASE flyball",
		"CREATE TABLE flyball.word (n INT NOT NULL) ENGINE=InnoDB",
		"INSERT INTO flyball.word VALUES (-1)",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, nil, nil, err
		}
	}
	return server, db, h.Close, nil
}

// polled are a circle of those that look at a row, not all at the same time.
func polled(ctx context.Context, db *sql.DB) (*circle, error) {
	if _, err := db.ExecContext(ctx, "UPDATE flyball.word SET n = -1"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	c := &circle{heard: make(chan time.Time, replicas)}
	c.say = func(n int) error {
		_, err := db.ExecContext(ctx, "UPDATE flyball.word SET n = ?", n)
		return err
	}
	c.stop = func() { cancel(); work.Wait() }
	for i := range replicas - 1 {
		work.Go(func() {
			wait := every * time.Duration(i) / replicas
			for last := -1; ; wait = every {
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					return
				}
				n := last
				if err := db.QueryRowContext(ctx, "SELECT n FROM flyball.word").Scan(&n); err != nil || n <= last {
					continue
				}
				last = n
				c.heard <- time.Now() // there is room: nobody says more until all have heard
			}
		})
	}
	return c, nil
}

package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
	"github.com/flyball-go/flyball/store/redisstore"
)

// place is where the store is. One of the fields is set.
type place struct {
	Redis string // address
	MySQL string // DSN
}

// ttl is how long a process that is silent keeps what only one may have, such as the
// first call after a pause. The default, 10 s, is for processes that stop for seconds.
const ttl = 3 * time.Second

func (p place) open(ctx context.Context) (store.Store, error) {
	if p.Redis != "" {
		return redisstore.New(redisstore.Config{Addrs: []string{p.Redis}, TTL: ttl})
	}
	return mysqlstore.Open(ctx, mysqlstore.Config{DSN: p.MySQL, TTL: ttl})
}

// startStore returns where the store is, starting a private one unless there is an
// existing one. end, which is never nil, stops it.
func startStore(ctx context.Context, o *options) (p place, end func(), err error) {
	h := &servers.Host{}
	defer func() {
		if err != nil {
			h.Close()
			end = func() {}
			// The servers were written for tests.
			text, _, _ := strings.Cut(err.Error(), " (or leave out")
			err = fmt.Errorf("-store %s: %s", o.store, strings.Replace(text, "this test", "this program", 1))
		}
	}()
	switch {
	case o.addr != "":
		p = place{Redis: o.addr}
	case o.dsn != "":
		p = place{MySQL: o.dsn}
		err = migrate(ctx, p.MySQL)
	case o.store == "redis":
		if err = h.Try(func() { p = place{Redis: servers.Redis(h).Addr} }); err == nil {
			err = assumeUnused(ctx, p)
		}
	default:
		var m *servers.MariaDB
		if err = h.Try(func() { m = servers.StartMariaDB(h) }); err == nil {
			p = place{MySQL: m.DSN("flyball")}
			err = createDatabase(ctx, m.DSN(""), p.MySQL)
		}
	}
	return p, h.Close, err
}

// assumeUnused says that nothing was granted through a Redis yet: it is new.
func assumeUnused(ctx context.Context, p place) error {
	s, err := redisstore.New(redisstore.Config{Addrs: []string{p.Redis}, TTL: ttl})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.AssumeUnused(ctx)
}

// createDatabase makes the database of dsn with its tables.
func createDatabase(ctx context.Context, server, dsn string) error {
	db, err := sql.Open("mysql", server)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE flyball"); err != nil {
		return err
	}
	return migrate(ctx, dsn)
}

// migrate makes the tables, or brings them up to date.
func migrate(ctx context.Context, dsn string) error {
	s, err := mysqlstore.Open(ctx, mysqlstore.Config{DSN: dsn, TTL: ttl, AutoMigrate: true})
	if err != nil {
		return err
	}
	return s.Close()
}

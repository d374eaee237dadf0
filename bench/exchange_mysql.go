package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/store/mysqlstore"
)

// L6mysql: how long an exchange through MariaDB takes, with the way there and back: the
// server counts no time of its own for several statements. Beside it the smallest
// transaction that there is, of the same driver on the same machine.
func init() {
	for _, nodes := range []int{8, 256} {
		add(row{id: fmt.Sprintf("L6mysql/%d", nodes), what: fmt.Sprintf("an exchange through MariaDB, %d nodes", nodes), peer: "an UPDATE of one row", unit: "ns",
			target: []bound{{amount, 1e6}}, measure: exchangeTime(nodes)})
	}
}

// exchangeTime has so many nodes take turns.
func exchangeTime(nodes int) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		ctx := context.Background()
		server, db, end, err := startMariaDB(ctx)
		if err != nil {
			return nil, err
		}
		defer end()
		engine, err := mysqlstore.Open(ctx, mysqlstore.Config{DSN: server.DSN("flyball"), AutoMigrate: true})
		if err != nil {
			return nil, err
		}
		defer engine.Close()
		var all []*asker
		for range nodes {
			all = append(all, newAsker(engine))
		}
		samples := make([]sample, passes)
		for i := range samples {
			s := &samples[i]
			if s.ours, err = perTurn(func(i int) error { return all[i%nodes].alive() }); err != nil {
				return nil, err
			}
			if s.peer, err = perTurn(func(i int) error { return update(ctx, db) }); err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
		}
		return samples, nil
	}
}

func update(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "UPDATE flyball.word SET n = n + 1")
	return err
}

// perTurn is how many nanoseconds each of 500 calls takes, after as many more.
func perTurn(call func(i int) error) (float64, error) {
	const turns = 500
	var begin time.Time
	for i := range 2 * turns {
		if i == turns {
			begin = time.Now()
		}
		if err := call(i); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin)) / turns, nil
}

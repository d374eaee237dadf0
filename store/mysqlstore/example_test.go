package mysqlstore_test

import (
	"context"
	"database/sql"
	"log"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

func ExampleOpen() {
	ctx := context.Background()
	engine, err := mysqlstore.Open(ctx, mysqlstore.Config{DSN: "flyball:secret@tcp(db:3306)/app?tls=true"})
	if err != nil {
		log.Print(err)
		return
	}
	defer engine.Close()
	shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
	if err != nil {
		log.Print(err)
		return
	}
	defer shared.Close()
	g, err := governor.New(governor.PlainConfig{
		Name:   "acme",
		Store:  shared, // and nothing else changes
		Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 1000, Per: time.Minute}}},
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer g.Close()
}

// By a user that may create tables.
func ExampleMigrate() {
	db, err := sql.Open("mysql", "admin:secret@tcp(db:3306)/app?tls=true")
	if err != nil {
		log.Print(err)
		return
	}
	defer db.Close()
	if err := mysqlstore.Migrate(context.Background(), db, ""); err != nil {
		log.Print(err)
	}
}

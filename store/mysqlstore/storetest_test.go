package mysqlstore_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/flyball-go/flyball/store/mysqlstore"
	"github.com/flyball-go/flyball/store/storetest"
)

func TestStoreConforms(t *testing.T) {
	m := shared(t)
	root, err := sql.Open("mysql", m.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	storetest.Run(t, storetest.Config{New: func(tb storetest.TB) storetest.Engine {
		name := fmt.Sprintf("conforms%d", databases.Add(1))
		if _, err := root.Exec("CREATE DATABASE " + name); err != nil {
			tb.Fatalf("%v", err)
		}
		s, err := mysqlstore.Open(tb.Context(), mysqlstore.Config{DSN: m.DSN(name), TTL: 2 * time.Second, AutoMigrate: true})
		if err != nil {
			tb.Fatalf("%v", err)
		}
		tb.(*testing.T).Cleanup(func() { s.Close() })
		return storetest.Engine{Store: s, Lose: func() {
			if _, err := root.Exec("DELETE FROM " + name + ".gov_state"); err != nil {
				tb.Errorf("%v", err)
			}
		}}
	}})
}

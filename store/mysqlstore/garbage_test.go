package mysqlstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

// healer takes what makes no sense for nothing.
type healer struct {
	store.Store
	db *sql.DB
}

func (h healer) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	as, err := h.Store.Exchange(ctx, node, items)
	if errors.Is(err, store.ErrInvalid) {
		h.db.Exec("DELETE FROM gov_state WHERE k = ?", items[0].Key)
		return h.Store.Exchange(ctx, node, items)
	}
	return as, err
}

func TestGarbageInARowIsInvalidAndGrantsNothing(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	s := open(t, mysqlstore.Config{DSN: dsn})
	noise := make([]byte, 300)
	rand.Read(noise)
	limits := forever(50)
	newClient(s).take(t, "other", 10, limits)
	for name, spoil := range map[string]func(key string) (string, []any){
		"no state":             func(k string) (string, []any) { return "state = ''", nil },
		"noise":                func(k string) (string, []any) { return "state = ?", []any{noise} },
		"a state cut short":    func(k string) (string, []any) { return "state = LEFT(state, LENGTH(state) - 1)", nil },
		"a state that goes on": func(k string) (string, []any) { return "state = CONCAT(state, 'x')", nil },
		"another byte": func(k string) (string, []any) {
			return "state = INSERT(state, 20, 1, CHAR(ASCII(SUBSTRING(state, 20, 1)) ^ 1))", nil
		},
		"text":               func(k string) (string, []any) { return "state = 'NaN'", nil },
		"a checksum alone":   func(k string) (string, []any) { return "state = LEFT(state, 4)", nil },
		"no version":         func(k string) (string, []any) { return "ver = 0", nil },
		"another version":    func(k string) (string, []any) { return "ver = ver + 1", nil },
		"the last version":   func(k string) (string, []any) { return "ver = 18446744073709551615", nil },
		"another time":       func(k string) (string, []any) { return "now_us = now_us + 1", nil },
		"a time before 1970": func(k string) (string, []any) { return "now_us = -now_us", nil },
		"a time of no end":   func(k string) (string, []any) { return "now_us = 9223372036854775807", nil },
		"another epoch":      func(k string) (string, []any) { return "epoch = 'x'", nil },
		"the row of another": func(k string) (string, []any) {
			return "ver = (SELECT ver FROM (SELECT * FROM gov_state) o WHERE k = 'other'), now_us = (SELECT now_us FROM (SELECT * FROM gov_state) o WHERE k = 'other'), state = (SELECT state FROM (SELECT * FROM gov_state) o WHERE k = 'other')", nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			granted := func(s store.Store, key string) (int64, error) {
				c := newClient(s)
				c.take(t, key, 10, limits)
				set, args := spoil(key)
				_, err := db.Exec("UPDATE gov_state SET "+set+" WHERE k = ?", append(args, key)...)
				require.NoError(t, err)
				as, err := s.Exchange(t.Context(), store.NewNode(), []store.Item{{Key: key, Seq: 1, Limits: limits, Version: 1, Want: 50}})
				if err != nil {
					return 0, err
				}
				return as[0].Granted, nil
			}
			key := store.KeyFor(name)
			got, err := granted(s, key)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.Zero(t, got)
			// The other keys of the same request have their answers.
			as, err := s.Exchange(t.Context(), store.NewNode(), []store.Item{
				{Key: key, Seq: 1, Limits: limits, Version: 1, Want: 50}, {Key: store.KeyFor(name, "beside"), Seq: 1, Limits: limits, Version: 1, Want: 3}})
			require.NoError(t, err)
			require.ErrorIs(t, as[0].Err, store.ErrInvalid)
			require.Zero(t, as[0].Granted)
			require.EqualValues(t, 3, as[1].Granted)
			// The control: an engine that begins anew.
			got, err = granted(healer{s, db}, store.KeyFor(name, "control"))
			require.NoError(t, err)
			require.Positive(t, got, "an engine that takes garbage for nothing passes")
		})
	}
}

func TestGarbageForTheFenceIsInvalid(t *testing.T) {
	m := shared(t)
	for _, text := range []string{"", "{", "[]", `{"lost_us":"x"}`} {
		dsn, db := database(t, m)
		_, err := db.Exec("UPDATE gov_state SET state = ? WHERE k = ''", text)
		require.NoError(t, err)
		_, err = mysqlstore.Open(t.Context(), mysqlstore.Config{DSN: dsn})
		require.ErrorIs(t, err, store.ErrInvalid, text)
	}
}

func TestGarbageForMetadataIsInvalid(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	s := open(t, mysqlstore.Config{DSN: dsn})
	for _, insert := range []string{
		"INSERT INTO gov_meta (k, meta, ver) VALUES ('a b', '1', 1)",
		"INSERT INTO gov_meta (k, meta, ver) VALUES ('k', '1', 0)",
	} {
		_, err := db.Exec(insert)
		require.NoError(t, err)
		_, err = s.Meta(t.Context(), store.MetaOp{Do: store.List})
		require.ErrorIs(t, err, store.ErrInvalid)
		_, err = db.Exec("DELETE FROM gov_meta")
		require.NoError(t, err)
	}
	_, err := s.Meta(t.Context(), store.MetaOp{Do: store.Put, Key: "k", Value: []byte("\"\xff\"")})
	require.ErrorIs(t, err, store.ErrInvalid, "no UTF-8")
	_, err = db.Exec("UPDATE gov_seq SET ver = 18446744073709551615")
	require.NoError(t, err)
	_, err = s.Meta(t.Context(), store.MetaOp{Do: store.Put, Key: "k", Value: []byte("1")})
	require.Error(t, err)
	_, err = db.Exec("DELETE FROM gov_seq")
	require.NoError(t, err)
	_, err = s.Meta(t.Context(), store.MetaOp{Do: store.Put, Key: "k", Value: []byte("1")})
	require.ErrorIs(t, err, store.ErrInvalid)
}

package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/store"
)

func (c *check) meta(op store.MetaOp) ([]store.Record, error) {
	return c.Store.Meta(c.Context(), op)
}

func put(key, value string, version uint64) store.MetaOp {
	return store.MetaOp{Do: store.Put, Key: key, Value: json.RawMessage(value), Version: version}
}

func metaCompares(c *check) {
	if rs, err := c.meta(store.MetaOp{Key: c.key}); len(rs) != 0 || err != nil {
		c.Errorf("a key that is not there: %v, %v", rs, err)
	}
	first, err := c.meta(put(c.key, `{"a": 1}`, 0))
	if err != nil || len(first) != 1 || first[0].Version == 0 {
		c.Fatalf("Put: %v, %v", first, err)
	}
	if _, err := c.meta(put(c.key, `{}`, 0)); !errors.Is(err, store.ErrConflict) {
		c.Errorf("a second Put of what is not there: %v", err)
	}
	second, err := c.meta(put(c.key, `{"a":2}`, first[0].Version))
	if err != nil || len(second) != 1 || second[0].Version == first[0].Version {
		c.Fatalf("Put: %v, %v", second, err)
	}
	for _, op := range []store.MetaOp{put(c.key, `{}`, first[0].Version), {Do: store.Delete, Key: c.key, Version: first[0].Version}, {Do: store.Delete, Key: c.key}} {
		if _, err := c.meta(op); !errors.Is(err, store.ErrConflict) {
			c.Errorf("what goes by another version: %v", err)
		}
	}
	rs, err := c.meta(store.MetaOp{Key: c.key})
	if err != nil || len(rs) != 1 || rs[0].Key != c.key || rs[0].Version != second[0].Version || !same(rs[0].Value, `{"a":2}`) {
		c.Errorf("Get: %v, %v", rs, err)
	}
	if _, err := c.meta(store.MetaOp{Do: store.Delete, Key: c.key, Version: second[0].Version}); err != nil {
		c.Errorf("Delete: %v", err)
	}
	third, err := c.meta(put(c.key, `{}`, 0))
	if err != nil || len(third) != 1 || third[0].Version == first[0].Version || third[0].Version == second[0].Version {
		c.Errorf("what was deleted begins anew with %v, %v", third, err)
	}
}

// same compares JSON, which an engine may write in its own way.
func same(a []byte, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, []byte(b)) == nil && x.String() == y.String()
}

func metaListed(c *check) {
	prefix := "list" + string(store.NewNode())[:12] + "-"
	for i := range 5 {
		if _, err := c.meta(put(fmt.Sprint(prefix, 4-i), `1`, 0)); err != nil {
			c.Fatalf("Put: %v", err)
		}
	}
	for limit, want := range map[int]int{0: 5, 3: 3, 1000: 5} {
		rs, err := c.meta(store.MetaOp{Do: store.List, Key: prefix, Limit: limit})
		if err != nil || len(rs) != want {
			c.Fatalf("List of up to %d: %d, %v; want %d", limit, len(rs), err, want)
		}
		for i, r := range rs {
			if r.Key != fmt.Sprint(prefix, i) {
				c.Errorf("List has %s in place %d", r.Key, i)
			}
		}
	}
}

func metaNonsense(c *check) {
	for _, op := range []store.MetaOp{
		put("a b", `1`, 0), put("", `1`, 0), put(c.key, ``, 0), put(c.key, `{`, 0),
		put(c.key, `"`+strings.Repeat("x", 8<<10)+`"`, 0),
		{Do: 9, Key: c.key}, {Do: store.List, Key: "%"}, {Do: store.List, Limit: -1}, {Do: store.List, Limit: 1001},
	} {
		if _, err := c.meta(op); !errors.Is(err, store.ErrInvalid) {
			c.Errorf("%d of %q: %v, want an error that matches ErrInvalid", op.Do, op.Key, err)
		}
	}
}

// metaRace has many read, add one, and put, until they have done so often enough.
func metaRace(c *check) {
	var wg sync.WaitGroup
	var puts atomic.Int64
	for range 4 {
		wg.Go(func() {
			for done := 0; done < 20; {
				rs, err := c.meta(store.MetaOp{Key: c.key})
				if err != nil {
					c.Errorf("Get: %v", err)
					return
				}
				n, version := 0, uint64(0)
				if len(rs) == 1 {
					json.Unmarshal(rs[0].Value, &n)
					version = rs[0].Version
				}
				time.Sleep(time.Duration(pick(1000)) * time.Microsecond) // others read the same
				switch _, err := c.meta(put(c.key, fmt.Sprint(n+1), version)); {
				case err == nil:
					done++
					puts.Add(1)
				case !errors.Is(err, store.ErrConflict):
					c.Errorf("Put: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if rs, err := c.meta(store.MetaOp{Key: c.key}); err != nil || len(rs) != 1 || string(rs[0].Value) != fmt.Sprint(puts.Load()) {
		c.Errorf("%d times one was added, and there is %v, %v", puts.Load(), rs, err)
	}
}

func closedIs(c *check) {
	c.ask(store.NewNode(), store.Item{})
	for range 2 {
		if err := c.Store.Close(); err != nil {
			c.Errorf("Close: %v", err)
		}
	}
	_, e1 := c.Store.Exchange(c.Context(), store.NewNode(), []store.Item{c.next("a", store.Item{})})
	_, e2 := c.meta(store.MetaOp{Key: c.key})
	_, e3 := c.Store.Watch(c.Context(), func(store.Hint) {})
	for _, err := range []error{e1, e2, e3} {
		if !errors.Is(err, store.ErrClosed) || !errors.Is(err, store.ErrNotExecuted) {
			c.Errorf("after Close: %v, want ErrClosed", err)
		}
	}
}

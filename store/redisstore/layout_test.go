package redisstore

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/store"
)

// Processes of two versions of the library share a hash: a later one has more in it,
// of the same layout.
func TestTwoVersionsShareAHash(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, old, new string
		breaks         bool
	}{
		{"a further field", "put('m', pack(", "put('zz', 'new') put('m', pack(", false},
		{"more about a node", "tonumber(seq), n[11], n[12]))", "tonumber(seq), n[11], n[12]) .. 'more')", false},
		{"control, what is taken elsewhere in the same layout", "getting, sum, a, used, u))", "getting, sum, a, u, used))", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, r := one(t)
			later := open(t, Config{Addrs: []string{r.Addr}})
			mutate(t, later, tc.old, tc.new)
			l := hourly(100)
			nodes := []*asker{newAsker(t, s, "k", l), newAsker(t, later, "k", l)}
			sum, failed := int64(0), 0
			for i := range 200 {
				a := nodes[i%2]
				it := a.item(3)
				answer, err := a.send(it)
				if err != nil {
					failed++
					continue
				}
				sum += answer.Granted
				time.Sleep(min(answer.RetryAfter, 5*time.Millisecond))
			}
			if (sum != 100 || failed > 0) != tc.breaks {
				t.Errorf("%d granted of 100, %d failed", sum, failed)
			}
		})
	}
}

func TestALaterLayoutIsLeftAlone(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	later := open(t, Config{Addrs: []string{r.Addr}})
	mutate(t, later, "local LAYOUT = 3", "local LAYOUT = 4")
	l := hourly(10)
	newAsker(t, s, "k", l).ask(3)
	if got := newAsker(t, later, "k", l).drain(); got != 0 {
		t.Errorf("a later version grants %d, beside 3 that it cannot read", got)
	}
	before := s.client.HGetAll(t.Context(), hashOf("k")).Val()
	if answer, err := newAsker(t, s, "k", l).sendOne(1); !errors.Is(err, store.ErrNotExecuted) || answer.Granted != 0 || !strings.Contains(err.Error(), "newer") {
		t.Errorf("of a later layout: %+v, %v", answer, err)
	}
	if after := s.client.HGetAll(t.Context(), hashOf("k")).Val(); len(before) == 0 || !maps.Equal(before, after) {
		t.Error("a hash of a later layout was changed")
	}
	r.Must("DEL", hashOf("k"))
	newAsker(t, s, "k", l).ask(1)
}

// A hash of an earlier layout, which may hold anything, counts as lost.
func TestAnEarlierLayoutCountsAsLost(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		s, r := one(t)
		if broken {
			mutate(t, s, "lost = now + bound\n", "\n")
		}
		r.Must("HSET", hashOf("k"), "v", "1", "f", "x", "t", "1", "l1", "x", "n:x", "x", "c:", "x")
		a := newAsker(t, s, "k", hourly(10))
		if got := a.drain(); (got != 0) != broken {
			t.Errorf("control %v: %d granted beside what cannot be read", broken, got)
		}
		if fields := r.Must("HKEYS", hashOf("k")); strings.Contains(fields, "n:x") || !strings.Contains(fields, "n:"+string(a.node)) {
			t.Errorf("there is %q", fields)
		}
	}
}

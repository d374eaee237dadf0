package redisstore

import (
	"errors"
	"maps"
	"slices"
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
	mutate(t, later, "local LAYOUT = 4", "local LAYOUT = 5")
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
		r.Must("HSET", hashOf("k"), "v", "3", "f", "x", "t", "1", "l1", "x", "n:x", "x", "c:", "x")
		a := newAsker(t, s, "k", hourly(10))
		if got := a.drain(); (got != 0) != broken {
			t.Errorf("control %v: %d granted beside what cannot be read", broken, got)
		}
		if fields := r.Must("HKEYS", hashOf("k")); strings.Contains(fields, "n:x") || !strings.Contains(fields, "n:"+string(a.node)) {
			t.Errorf("there is %q", fields)
		}
	}
}

// A hash says nothing twice: of a key with one limit there is what was asked for and what
// is taken, until more has to be kept.
func TestAHashHoldsNoMoreThanItHasTo(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	day := 24 * time.Hour
	window, sliding := store.Limit{Kind: store.Window, Quota: 10, Per: day}, store.Limit{Quota: 10, Per: 3200 * time.Millisecond}
	bucket, brief := store.Limit{Kind: store.Bucket, Quota: 1000, Per: time.Second}, store.Limit{Kind: store.Window, Quota: 10, Per: day / 864000}
	more := func(l store.Limit) store.Limit { l.Quota *= 2; return l }
	for name, c := range map[string]struct {
		limits, next []store.Limit
		want, then   string
		between      []store.Limit
	}{
		"one limit":                   {[]store.Limit{window}, []store.Limit{window}, "b m n v", "b m n v", nil},
		"none":                        {nil, nil, "f m n v", "f m n v", nil},
		"two limits":                  {[]store.Limit{window, sliding}, []store.Limit{window, sliding}, "f l1 l2 la lv m n v", "f l1 l2 la lv m n v", nil},
		"a second limit":              {[]store.Limit{window}, []store.Limit{window, sliding}, "b m n v", "f l1 l2 la lv m n v", nil},
		"one limit less":              {[]store.Limit{window, sliding}, []store.Limit{window}, "f l1 l2 la lv m n v", "b m n v", nil},
		"a raise that is to count":    {[]store.Limit{window}, []store.Limit{more(window)}, "b m n v", "b l1 m n v", nil},
		"a raise that counts":         {[]store.Limit{bucket}, []store.Limit{more(bucket)}, "b m n v", "b m n v", nil},
		"a step and another":          {[]store.Limit{sliding}, []store.Limit{sliding}, "b m n v", "b m n t v", nil},
		"a Sliding becomes a Window":  {[]store.Limit{sliding}, []store.Limit{{Kind: store.Window, Quota: 10, Per: sliding.Per}}, "b m n v", "b m n v", nil},
		"a Sliding is one of two":     {[]store.Limit{sliding}, []store.Limit{sliding, window}, "b m n v", "f l1 l2 la lv m n t v", nil},
		"a Window becomes a Sliding":  {[]store.Limit{brief}, []store.Limit{sliding}, "b m n v", "b m n t v", nil}, // all of it counts as taken
		"a Window goes on for long":   {[]store.Limit{window}, []store.Limit{sliding}, "b m n v", "b m n v", nil},  // in a step to come
		"a raise that is taken back":  {[]store.Limit{window}, []store.Limit{window}, "b m n v", "b m n v", []store.Limit{more(window)}},
		"a lower limit, and no raise": {[]store.Limit{more(window)}, []store.Limit{window}, "b m n v", "b m n v", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node, key := store.NewNode(), string(store.NewNode())
			fields := func() string {
				names := strings.Fields(r.Must("HKEYS", hashOf(key)))
				for i, f := range names {
					names[i] = strings.TrimSuffix(f, ":"+string(node))
				}
				slices.Sort(names)
				return strings.Join(names, " ")
			}
			seq := uint64(0)
			ask := func(limits []store.Limit, version uint64) store.Answer {
				seq++
				as, err := s.Exchange(t.Context(), node, []store.Item{{Key: key, Seq: seq, Limits: limits, Version: version, Want: 1}})
				if err != nil || as[0].Err != nil {
					t.Fatal(err, as)
				}
				return as[0]
			}
			ask(c.limits, 1)
			if got := fields(); got != c.want {
				t.Errorf("the hash has %q, want %q", got, c.want)
			}
			time.Sleep(250 * time.Millisecond) // more than a step of the Sliding
			ask(c.limits, 1)
			if c.between != nil {
				ask(c.between, 2)
			}
			ask(c.next, 3)
			time.Sleep(1100 * time.Millisecond) // and more than a Per of the Bucket
			if a := ask(c.next, 3); a.Limits != nil {
				t.Errorf("other limits are in force: %v", a.Limits)
			}
			if got := fields(); got != c.then {
				t.Errorf("then the hash has %q, want %q", got, c.then)
			}
		})
	}
}

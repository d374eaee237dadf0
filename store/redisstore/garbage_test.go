package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
)

// packed is numbers as the script packs them.
func packed(v ...uint64) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return string(b)
}

// unpack is its inverse.
func unpack(v string) (numbers []uint64) {
	for ; len(v) >= 8; v = v[8:] {
		numbers = append(numbers, binary.LittleEndian.Uint64([]byte(v)))
	}
	return numbers
}

// with is numbers, with the i-th replaced.
func with(numbers string, i int, x uint64) string {
	return numbers[:8*i] + packed(x) + numbers[8*i+8:]
}

// garbage is what may be found in the hash of an asker for an hourly limit: field by
// field, what to put there.
func garbage(r *servers.RedisServer, a *asker) map[string][]string {
	get := func(field string) string { return r.Must("HGET", hashOf("k"), field) }
	n, m := get("n:"+string(a.node)), get("m")
	full := packed(slices.Concat(unpack(n)[:6], make([]uint64, 11))...) + "00000000000000000001"
	limit := packed(uint64(a.limit.Kind), uint64(a.limit.Quota), uint64(a.limit.Per), 0, 0, uint64(a.limit.Fill().Transit), 0, 0, 0, 0, 0)
	wild := func(numbers string, at int) (all []string) {
		for _, x := range []uint64{1 << 53, 1 << 63, math.MaxUint64, math.Float64bits(1), math.Float64bits(math.NaN())} {
			all = append(all, with(numbers, at, x))
		}
		return all
	}
	g := map[string][]string{
		"v":                   {"", "x", "nan", "inf", "-1", "1.5", "0x10", "1e300", "99999999999999999999", " 1", "1\n", "4", "4 0", "4 0 ", "4 x 0", "4 0 -1", "4 0 1.5", "4 0 0 ", "4 0 99999999999999999999"},
		"m":                   {"", "x", m[:len(m)-1], m + "x", m + m},
		"p":                   {"", "x", "-1 ", "1e9 x", "99999999999999999999 x", "1 a b"},
		"l1":                  {"", "x", limit[:len(limit)-1], limit + "x", limit + limit},
		"n:" + string(a.node): {"", "x", n[:len(n)-1], strings.Repeat("\xff", len(n))},
		"n:other":             {"", "x", strings.Repeat("\xff", len(n)), strings.Repeat("\xff", len(full))},
		"c:":                  {"", "x", packed(1<<53, 1), packed(1, 1<<63), packed(1<<60, 1)},
		"c:tenant:x":          {"", packed(math.MaxUint64, 1)},
	}
	for at := range len(limit) / 8 {
		g["l1"] = append(g["l1"], wild(limit, at)...)
	}
	g["l1"] = append(g["l1"], with(limit, 0, 3), with(limit, 1, 0), with(limit, 2, 0), with(limit, 3, 1e6))
	for at := range len(n) / 8 {
		g["n:"+string(a.node)] = append(g["n:"+string(a.node)], wild(n, at)...)
	}
	for at := range 17 {
		g["n:"+string(a.node)] = append(g["n:"+string(a.node)], wild(full, at)...)
	}
	for at := range len(m) / 8 {
		g["m"] = append(g["m"], wild(m, at)...)
	}
	for at := range 11 {
		g["n:other"] = append(g["n:other"], wild(full, at)...)
	}
	for _, at := range []int{0, 1, 2, 3, 4, 5, 7} {
		g["n:other"] = append(g["n:other"], wild(n, at)...)
	}
	if b := get("b"); b != "" {
		g["b"] = []string{"", "x", b[:len(b)-1], b + "x", "x" + b[1:], strings.Replace(b, " ", "  ", 1), strings.Repeat("\xff", len(b))}
		const numbers = len("master_replid:") + 40
		for at := range 5 {
			for _, v := range wild(b[numbers:], at) {
				g["b"] = append(g["b"], b[:numbers]+v)
			}
		}
	} else {
		g["lv"] = []string{"", "x", "5", "-0000000000000000001"}
		g["la"] = []string{"", "x", get("la") + "x"}
	}
	return g
}

// patient is one for which nobody is gone before a test is over: what is kept of who is
// gone is not looked at.
func patient(t *testing.T) (*Store, *servers.RedisServer) {
	t.Helper()
	_, r := one(t)
	return open(t, Config{Addrs: []string{r.Addr}, TTL: time.Hour}), r
}

func TestGarbageIsInvalidAndNeverAGrant(t *testing.T) {
	t.Parallel()
	for _, further := range [][]store.Limit{nil, {{Kind: store.Window, Quota: 1e6, Per: 24 * time.Hour}}} {
		for _, broken := range []bool{false, true} {
			s, r := patient(t)
			mutate(t, s, isLong[0], isLong[1])
			if broken {
				mutate(t, s, "if max(unpack(r)) > TOP then garbage(what) end", "")
			}
			a := newAsker(t, s, "k", hourly(10))
			a.further = further
			a.ask(3)
			r.Must("COPY", hashOf("k"), "saved")
			missed := 0
			for field, values := range garbage(r, a) {
				for _, v := range values {
					if broken && missed > 0 { // which is all there is to prove
						break
					}
					if spoil(t, s, field, v); field == "la" {
						a.limit.Quota-- // so that it is told of the others
					}
					answer, err := a.sendOne(1)
					if !errors.Is(err, store.ErrInvalid) || answer.Granted != 0 {
						if missed++; !broken {
							t.Errorf("%q in the field %s: %d granted, %v", v, field, answer.Granted, err)
						}
					}
					if field == "la" {
						a.limit.Quota++
					}
				}
			}
			if (missed > 0) != broken {
				t.Errorf("control %v: %d pieces of garbage are missed", broken, missed)
			}
			for _, kind := range [][]string{{"SET", hashOf("k"), "x"}, {"RPUSH", hashOf("k"), "x"}, {"SET", witness, "x"}} {
				r.Must("DEL", kind[1])
				r.Must(kind...)
				if answer, err := a.sendOne(1); !errors.Is(err, store.ErrInvalid) || answer.Granted != 0 {
					t.Errorf("%s instead of a hash: %d granted, %v", kind[0], answer.Granted, err)
				}
				r.Must("DEL", kind[1])
			}
		}
	}
}

func TestGarbageInTheStepsOfASlidingIsInvalid(t *testing.T) {
	t.Parallel()
	s, r := patient(t)
	mutate(t, s, isLong[0], isLong[1])
	a := newAsker(t, s, "k", store.Limit{Kind: store.Sliding, Quota: 10, Per: 20 * time.Hour})
	a.ask(3)
	r.Must("COPY", hashOf("k"), "saved")
	zeros := packed(make([]uint64, 33)...)
	values := []string{"", "x", zeros[1:], zeros + "x", zeros + zeros}
	for at := range 33 {
		for _, x := range []uint64{1, 10, 1 << 53, 1 << 63, math.MaxUint64} { // of 1 m does not know
			values = append(values, with(zeros, at, x))
		}
	}
	for _, v := range values {
		spoil(t, s, "t", v)
		if answer, err := a.sendOne(1); !errors.Is(err, store.ErrInvalid) || answer.Granted != 0 {
			t.Errorf("%q in the field t: %d granted, %v", v, answer.Granted, err)
		}
	}
	spoil(t, s, "t", zeros) // says what its absence does
	if answer, err := a.sendOne(1); err != nil || answer.Granted != 1 {
		t.Errorf("%d granted, %v", answer.Granted, err)
	}
}

// spoil has v in a field of a hash that is otherwise as it was saved.
func spoil(t *testing.T, s *Store, field, v string) {
	t.Helper()
	pipe := s.client.Pipeline()
	pipe.Copy(t.Context(), "saved", hashOf("k"), 0, true)
	pipe.HSet(t.Context(), hashOf("k"), field, v)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What the short way grants was there to be granted, and is counted, whatever it has
// not looked at; it leaves no garbage behind.
func TestGarbageIsNoGrantOfTheShortWay(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		s, r := patient(t)
		if broken {
			mutate(t, s, " or sum > 1e12 or", " or")
		}
		a := newAsker(t, s, "k", hourly(10))
		a.ask(3)
		a.ask(0) // the first to have a brief record
		r.Must("COPY", hashOf("k"), "saved")
		g, missed := garbage(r, a), 0
		for field, values := range g {
			for _, v := range values {
				if broken && missed > 0 {
					break
				}
				spoil(t, s, field, v)
				answer, err := a.sendOne(1)
				used := unpack(r.Must("HGET", hashOf("k"), "m"))
				counted := len(used) == 11 && used[9] == 4 && slices.Max(used) < 1<<53
				if !errors.Is(err, store.ErrInvalid) && (answer.Granted != 1 || !counted) {
					if missed++; !broken {
						t.Errorf("%q in the field %s: %d granted, %v", v, field, answer.Granted, err)
					}
				}
			}
		}
		if (missed > 0) != broken {
			t.Errorf("control %v: %d pieces of garbage are missed", broken, missed)
		}
	}
}

func TestGarbageInTheWitnessIsInvalid(t *testing.T) {
	t.Parallel()
	s, r := patient(t)
	mutate(t, s, isLong[0], isLong[1]) // the short way does not need it
	a := newAsker(t, s, "k", hourly(10))
	a.ask(3)
	for _, field := range []string{"b", "l"} {
		was := r.Must("HGET", witness, field)
		for _, v := range []string{"", "x", "-1", "nan", "1e9", "99999999999999999999"} {
			r.Must("HSET", witness, field, v)
			if answer, err := a.sendOne(1); !errors.Is(err, store.ErrInvalid) || answer.Granted != 0 {
				t.Errorf("%q in the field %s of the witness: %d granted, %v", v, field, answer.Granted, err)
			}
		}
		r.Must("HSET", witness, field, was)
	}
	for _, field := range []string{"b", "l", "e"} {
		was := r.Must("HGET", witness, field)
		r.Must("HDEL", witness, field)
		if answer, err := a.sendOne(1); !errors.Is(err, store.ErrInvalid) || answer.Granted != 0 {
			t.Errorf("without the field %s of the witness: %d granted, %v", field, answer.Granted, err)
		}
		r.Must("HSET", witness, field, was)
	}
	a.ask(1)
}

// Whatever somebody scribbles into the hash, an answer is one that the contract
// allows, or there is an error.
func TestScribbles(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	l := store.Limit{Quota: 10, Per: time.Hour}
	errs, scribbles := 0, effort.Times(60)
	for i := range scribbles {
		key := "k" + strconv.Itoa(i)
		a := newAsker(t, s, key, l)
		a.ask(1)
		fields := strings.Fields(r.Must("HKEYS", hashOf(key)))
		field := fields[rand.IntN(len(fields))]
		v := []byte(r.Must("HGET", hashOf(key), field))
		for range 1 + rand.IntN(3) {
			if len(v) > 0 {
				v[rand.IntN(len(v))] = byte(rand.IntN(256))
			}
		}
		r.Must("HSET", hashOf(key), field, string(v))
		it := a.item(5)
		if i%2 == 0 {
			it.Limits = nil // so that it is told of them
		}
		answer, err := a.send(it)
		switch {
		case errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrNotExecuted):
			errs++
		case err != nil:
			t.Errorf("%q in the field %s: %v", v, field, err)
		case answer.Granted > 5:
			t.Errorf("%q in the field %s: %+v", v, field, answer)
		}
	}
	t.Logf("%d of %d scribbles are errors", errs, scribbles)
}

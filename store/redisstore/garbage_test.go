package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
)

// doubles packs numbers as the script does.
func doubles(v ...float64) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return string(b)
}

// with is packed, with its i-th number replaced.
func with(packed string, i int, x float64) string {
	return packed[:8*i] + doubles(x) + packed[8*i+8:]
}

// garbage is what may be found in a hash: field by field, what to put there.
func garbage(r *servers.RedisServer, a *asker) map[string][]string {
	l := r.Must("HGET", hashOf("k"), "l1")
	n := r.Must("HGET", hashOf("k"), "n:"+string(a.node))
	numbers := []string{"", "x", "nan", "inf", "-1", "1.5", "0x10", "1e300", "99999999999999999999", " 1", "1\n"}
	wild := func(packed string, at int) (all []string) {
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0.5, 1e300, 1 << 53 * 2} {
			all = append(all, with(packed, at, x))
		}
		return all
	}
	g := map[string][]string{
		"v": numbers, "t": numbers, "g": numbers, "l": numbers, "s": numbers, "b": numbers,
		"p":                   {"", "x", "-1 ", "1e9 x", "99999999999999999999 x", "1 a b"},
		"lv":                  {"", "x", "5", "-0000000000000000001"},
		"l1":                  {"", "x", l[:len(l)-1], l + "x", l + l},
		"n:" + string(a.node): {"", "x", n[:len(n)-1], strings.Repeat("\xff", len(n))},
		"n:other":             {"", "x", strings.Repeat("\xff", len(n))},
		"c:":                  {"", "x", doubles(math.NaN(), 1), doubles(1, -1), doubles(1e300, 1)},
		"c:tenant:x":          {"", doubles(math.Inf(1), 1)},
	}
	for at := range len(l) / 8 {
		g["l1"] = append(g["l1"], wild(l, at)...)
	}
	g["l1"] = append(g["l1"], with(l, 0, 3), with(l, 1, 0), with(l, 2, 0), with(l, 3, 1e6))
	for at := range 17 {
		g["n:"+string(a.node)] = append(g["n:"+string(a.node)], wild(n, at)...)
	}
	for at := range 10 {
		g["n:other"] = append(g["n:other"], wild(n, at)...)
	}
	return g
}

func TestGarbageIsInvalidAndNeverAGrant(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		s, r := one(t)
		if broken {
			mutate(t, s, "if not (x >= 0 and x <= TOP) or x ~= floor(x) then garbage(what) end", "")
		}
		a := newAsker(t, s, "k", hourly(10))
		a.ask(3)
		missed := 0
		for field, values := range garbage(r, a) {
			for _, v := range values {
				r.Must("COPY", hashOf("k"), "saved", "REPLACE")
				r.Must("HSET", hashOf("k"), field, v)
				answer, err := a.sendOne(1)
				if !errors.Is(err, store.ErrInvalid) || answer.Granted != 0 {
					if missed++; !broken {
						t.Errorf("%q in the field %s: %d granted, %v", v, field, answer.Granted, err)
					}
				}
				r.Must("COPY", "saved", hashOf("k"), "REPLACE")
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

func TestGarbageInTheWitnessIsInvalid(t *testing.T) {
	t.Parallel()
	s, r := one(t)
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
	errs := 0
	for i := range 400 {
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
		it.Limits = nil // so that it is told of them
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
	t.Logf("%d of 400 scribbles are errors", errs)
}

package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// The script has a short way for what is common, and a long one for everything. Both
// have to answer alike, and to leave the same behind, and so has store.Memory. Here the
// same requests go to all three, at the same instants: the scripts are told the time.

// began is when a bubble's clock begins.
var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const ways = 1000 * time.Millisecond // their TTL

// inMemory is what a store.Memory answers to steps.
func inMemory(t *testing.T, steps []step) (answers []store.Answer) {
	synctest.Test(t, func(t *testing.T) {
		m, err := store.NewMemory(store.MemoryConfig{TTL: ways})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			time.Sleep(time.Until(began.Add(s.at)))
			if s.knows {
				s.item.Epoch = "1"
			}
			as, err := m.Exchange(t.Context(), s.node, []store.Item{s.item})
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, as[0])
		}
	})
	return answers
}

// way is a Store whose script is told the time.
type way struct {
	*Store
	key string
}

// told returns a way of r, with what is changed in its script.
func told(t *testing.T, r *servers.RedisServer, key string, changes ...[2]string) *way {
	s := open(t, Config{Addrs: []string{r.Addr}, TTL: ways})
	for _, c := range append(changes, [2]string{"call('TIME')", "call('HMGET', 'clock', 's', 'us')"}) {
		mutate(t, s, c[0], c[1])
	}
	return &way{s, key}
}

// take is what it answers to a step.
func (w *way) take(t *testing.T, s step, epoch string) store.Answer {
	it := s.item
	it.Key = w.key
	if s.knows {
		it.Epoch = epoch
	}
	as, err := w.Exchange(t.Context(), s.node, []store.Item{it})
	if err != nil {
		t.Fatal(err)
	}
	as[0].Key = "k"
	slices.SortFunc(as[0].Cooldowns, func(a, b store.Cooldown) int { return strings.Compare(a.Scope, b.Scope) })
	return as[0]
}

// differ compares what two ways left behind. When something is due the short way
// may think earlier than it is.
func differ(short, long map[string]string) error {
	for f := range long {
		if _, ok := short[f]; !ok {
			return fmt.Errorf("the short way has no %s", f)
		}
	}
	for f, v := range short {
		w := long[f]
		if f == "m" && len(v) == len(w) && binary.LittleEndian.Uint64([]byte(v[8:])) <= binary.LittleEndian.Uint64([]byte(w[8:])) {
			v, w = v[:8]+v[16:], w[:8]+w[16:]
		}
		if v != w {
			return fmt.Errorf("the short way has %v for %s, the long one %v", unpacked(v), f, unpacked(w))
		}
	}
	return nil
}

// unpacked shows what is packed.
func unpacked(v string) any {
	if len(v)%8 != 0 {
		return strconv.Quote(v)
	}
	return unpack(v)
}

// unlike compares an answer with that of a Memory, which counts in nanoseconds, and
// has of a repeated request the cooldowns of then.
func unlike(a, m store.Answer, repeated bool) error {
	near := func(a, b time.Duration) bool { return a-b <= 2*time.Microsecond && b-a <= 2*time.Microsecond }
	same := a.Granted == m.Granted && a.Stale == m.Stale && a.Held == m.Held && near(a.ValidFor, m.ValidFor) && near(a.RetryAfter, m.RetryAfter)
	if !repeated && !a.Stale {
		same = same && a.Nodes == m.Nodes && a.Gen == m.Gen && a.Version == m.Version && slices.Equal(a.Limits, m.Limits) &&
			a.Probe == m.Probe && near(a.ProbeFor, m.ProbeFor) && near(a.SlotsFor, m.SlotsFor) &&
			slices.EqualFunc(a.Cooldowns, m.Cooldowns, func(a, b store.Cooldown) bool {
				return a.Scope == b.Scope && a.Gen == b.Gen && near(a.Left, b.Left)
			})
	}
	if !same {
		return fmt.Errorf("%+v, a Memory %+v", a, m)
	}
	return nil
}

// compare has steps taken both ways, and returns the first difference, and how many
// were short. Without a long way it compares the short one with the memory alone.
func compare(t *testing.T, r *servers.RedisServer, steps []step, memory []store.Answer, short, long *way) (shorts int, err error) {
	r.Must("DEL", hashOf("a"), hashOf("b"), "shorts")
	seen := map[store.Node]uint64{}
	var epoch string
	set := func(c redis.Cmdable, s step) {
		us := began.Add(s.at).UnixMicro()
		c.HSet(t.Context(), "clock", "s", us/1e6, "us", us%1e6)
	}
	set(short.client, steps[0])
	for i, s := range steps {
		a := short.take(t, s, epoch)
		b := a
		if long != nil {
			b = long.take(t, s, epoch)
		}
		pipe := short.client.Pipeline()
		was, is := pipe.HGetAll(t.Context(), hashOf(short.key)), pipe.HGetAll(t.Context(), hashOf("b"))
		if i+1 < len(steps) {
			set(pipe, steps[i+1])
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		if long != nil {
			// Sprint takes longer, but tells a slice that is nil from an empty one no more than
			// users do.
			if !reflect.DeepEqual(a, b) && fmt.Sprint(a) != fmt.Sprint(b) {
				return 0, fmt.Errorf("step %d, %+v: the short way answers %+v, the long one %+v", i, s, a, b)
			}
			if err := differ(was.Val(), is.Val()); err != nil {
				return 0, fmt.Errorf("step %d, %+v: %w", i, s, err)
			}
		}
		if memory != nil {
			m := memory[i]
			slices.SortFunc(m.Cooldowns, func(a, b store.Cooldown) int { return strings.Compare(a.Scope, b.Scope) })
			if err := unlike(a, m, seen[s.node] == s.item.Seq); err != nil {
				return 0, fmt.Errorf("step %d, %+v: %w", i, s, err)
			}
		}
		if seen[s.node] = max(seen[s.node], s.item.Seq); s.item.Bye {
			delete(seen, s.node)
		}
		if a.Epoch != "" {
			epoch = a.Epoch
		}
	}
	shorts, err = short.client.Get(t.Context(), "shorts").Int()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return shorts, err
}

// limitsToWalk are a limit of each kind, of steps of whole microseconds, and quotas
// under which some requests are refused and most are not.
var limitsToWalk = []store.Limit{
	{Kind: store.Window, Quota: 300, Per: 320 * time.Millisecond},
	{Kind: store.Sliding, Quota: 400, Per: 320 * time.Millisecond, Transit: -1},
	{Kind: store.Bucket, Quota: 400, Burst: 60, Per: 320 * time.Millisecond},
}

var (
	countsShorts = [2]string{"	return '=' .. pack(", "	call('INCR', 'shorts') return '=' .. pack("}
	isLong       = [2]string{"if not ARGV[3] then", "if false then"}
)

func TestTheShortWayIsTheLongOne(t *testing.T) {
	t.Parallel()
	for _, l := range limitsToWalk {
		t.Run(l.Kind.String(), func(t *testing.T) {
			t.Parallel()
			_, r := one(t)
			// A walk may be in a cooldown for long, in which no way is short.
			for walks, all := 0, 0; walks < effort.Times(1) || all < 10; walks++ {
				seed := rand.Uint64()
				steps := walk(rand.New(rand.NewPCG(seed, 0)), l, 1500)
				memory := inMemory(t, steps)
				shorts, err := compare(t, r, steps, memory, told(t, r, "a", countsShorts), told(t, r, "b", isLong))
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				t.Logf("%d of %d went the short way", shorts, len(steps))
				if all += shorts; walks > 20 && all < 10 {
					t.Fatalf("%d in %d walks are too few to prove anything", all, walks)
				}
			}
		})
	}
}

// A way that is wrong is found out: the table has what is wrong with it.
func TestWaysThatDifferAreFoundOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, old, new string
		memory         bool // both ways are wrong
	}{
		{"keeps who is gone", "now >= due", "false", false},
		{"forgets slots", "due = slotted and 0 or", "due =", false},
		{"goes on in a cooldown", "if probing or whole and whole.till > now or keeping", "if keeping", false},
		{"executes again", "before >= seq", "false", false},
		{"does not tell of cooldowns", "gen > seen or count", "count", false},
		{"goes by any limits", "find(b, belief, start, true) ~= start or", "", false},
		{"does not forget a round", "if newround ~= round then getting, sum = 0, 0 end", "", false},
		{"counts its own part twice", "if gotround == round then sum = sum - got end", "", false},
		{"knows no other nodes", "local active = wanting + getting + 1", "local active = 1", false},
		{"keeps what comes back", "local back = returned", "local back = 0", false},
		{"takes back what it did not give", "if back > open then back = open end", "", false},
		{"takes back after the step", "if granted < step * width then open = 0 end", "", false},
		{"forgives debts of a Sliding", "u, used = u + debt, used + debt", "", false},
		{"forgives debts of a Window", "u, used = 0, used + debt", "u = 0", false},
		{"forgets a step of a Sliding", "all[1 + a % (SEGMENTS + 1)] = u", "", false},
		{"counts a step for too long", "for s = math.max(a + 1, step - SEGMENTS), step do", "for s = math.max(a + 1, step - SEGMENTS), step - 1 do", false},
		{"forgets what it granted", "got, open, granted, wanting = got + k,", "got, open, granted, wanting = got,", false},
		{"hands out scraps", "if k < want and (avail - k < least or", "if false and (false or", false},
		{"has a Bucket without its end", "if kind ~= BUCKET then break end\n			chunk", "chunk", false},
		{"rounds a Bucket down", "math.min(CAP, ahead + spread(w, d, k) + 1)", "math.min(CAP, ahead + spread(w, d, k))", false},
		{"is valid for too long", "usable = (a + 1) * width - late - now", "usable = (a + 1) * width - now", false},
		{"does not live on", "pack(BRIEFFORMAT, now + ttl, want,", "pack(BRIEFFORMAT, now + ttl - 1, want,", false},
		{"has the Lease of before", "c[NEXT + 2] < c[LEASE] then due = 0 end", "c[NEXT + 2] < c[LEASE] then end", false},
		{"gives the Lease of before", "floor((c[RAISE] ~= 0 and c[NEXT + 2] or c[LEASE]) / 1000)", "floor(c[LEASE] / 1000)", true},
		{"counts at the pace of now what a Bucket has taken", "	if d > 0 then\n		local to", "	if false then\n		local to", true},
		{"raises a Bucket a Per later", "c[KIND] == BUCKET and span(c) or c[PER]", "c[PER]", true},
		{"raises a Bucket before", "if c[KIND] == BUCKET then quota = burst - 1 + min(rest(l), rest(c)) end", "", true},
		{"forgets what other limits lent", "lost = max(lost, ends)", "lost = max(lost, now + 1)", true},
		{"has what limits lend end with the last of them", "ends = min(ends, lends(c))", "ends = ends == TOP and lends(c) or max(ends, lends(c))", true},
		{"has a Bucket follow with all but a Burst", "lost + ceil(l[PER] / 1000) or lost - 1", "lost or lost - 1", true},
		{"expects who got all", "k > 0 and k < b", "81 < b", true},
		{"has room for one more", "spread(w, m, k + 1) < room", "spread(w, m, k) < room", true},
		{"leaves what another holds", "theirs + i", "theirs", true},
		{"leaves what others lack", "lack = lack + max(0, min(lacking[i], fair - having[i]))", "", true},
		{"leaves what is of no use to others", "useful[i] <= fair and", "", true},
		{"keeps nothing for the first in line", "ahead and ahead.keeps or 0", "0", true},
		{"keeps something in a turn", "keeps = turn == 0 and max(0, least - i) or 0", "keeps = max(0, least - i)", true},
		{"has the last be the first in line", "o.number < first.number", "o.number > first.number", true},
		{"has each be the first in line", "and (not first or n.line < first.number)\n", "\n", true},
		{"has the dead be in line", "if a - ttl / 2 > now then", "if true then", true},
		{"has all stand at the end of the line again", "elseif n.line == 0 or n.turn > 0 then", "else", true},
		{"goes on with a turn for ever", "elseif n.line == 0 or n.turn > 0 then", "elseif n.line == 0 then", true},
		{"knows no turn", "if n[HELD] >= leastslots then n.turn = 1 end", "", true},
		{"hands out what is of no use", "if more > 0 and n[HELD] + more >= leastslots then", "if more > 0 then", true},
		{"keeps in line who has its part", "if not isfirst then n.line = 0 end", "", true},
		{"leaves slots with who stands in line", "elseif not isfirst then\n		answer", "elseif false then\n		answer", true},
		{"stands in line for more than there is", "if o.least <= capacity and", "if", true},
		{"has a part for who has no use for it", "for _ = 1, 2 do", "for _ = 1, 1 do", true},
		{"takes all slots there are for its own", "if h > 0 and h < capacity then capacity = h end", "", true},
		{"is fair to who wants no more slots", "content = content + i", "content = 0", true},
		{"forgets when the first is gone", "if a < earliest then earliest = a end", "", false},
		{"forgets who wants some", "asking = asking + 1", "", true},
		{"forgets what others got", "gots[d] = (gots[d] or 0) + c", "gots[d] = c", true},
		{"forgets who got some", "gets[d] = (gets[d] or 0) + 1", "", true},
		{"forgets what others were told", "promises[#promises + 1] = g", "", true},
		{"has who comes early come last", "		place = told - 1\n", "		place = TOP\n", true},
		{"has who comes in vain come last", "		place = enough(least, 0)\n", "		place = TOP\n", true},
		{"puts off for each word a turn at a Bucket", "if told > now and least > 1 and kind == BUCKET then n[TOLD] = min(n[TOLD], told) end", "", true},
		{"forgets a turn at a Bucket", "if b >= TURNS and g + WAY > now then", "if false then", true},
		{"is short in a turn at a Bucket", "or keeping > 0 or n[WANTS] >= TURNS then", "then", false},
		{"forgets nodes late", "if a > now then", "if a > now - 1000 then", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, r := one(t)
			limits := slices.DeleteFunc(slices.Clone(limitsToWalk), func(l store.Limit) bool { // all but those that it is about
				return !strings.Contains(strings.ToLower(c.name), strings.ToLower(l.Kind.String()))
			})
			if len(limits) == 0 {
				limits = limitsToWalk
			}
			for range 60 * len(limitsToWalk) / len(limits) {
				for _, l := range limits {
					steps := walk(rand.New(rand.NewPCG(rand.Uint64(), 0)), l, 1500)
					var memory []store.Answer
					change := [2]string{c.old, c.new}
					var long *way
					if c.memory { // the long way would be as wrong
						memory = inMemory(t, steps)
					} else {
						long = told(t, r, "b", isLong)
					}
					if _, err := compare(t, r, steps, memory, told(t, r, "a", change), long); err != nil {
						t.Logf("%.300v", err)
						return
					}
				}
			}
			t.Error("no difference is seen")
		})
	}
}

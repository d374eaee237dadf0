package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// line is a client of a batcher, and its server: that takes 2 ms for what comes together, and
// replies to each command with its own argument. As go-redis does, the client looks at a
// context until it has written, and then at its deadline.
type line struct {
	*batcher
	dials time.Duration // before it writes
	takes func() time.Duration
	work  sync.WaitGroup
	mu    sync.Mutex
	went  []string // what went together
	under int      // batches that are under way
}

func newLine() *line {
	l := &line{takes: func() time.Duration { return 2 * time.Millisecond }}
	l.batcher = &batcher{work: &l.work, all: l.reply, one: func(ctx context.Context, cmd *redis.StringCmd) {
		l.reply(ctx, []*redis.StringCmd{cmd})
	}}
	return l
}

func (l *line) reply(ctx context.Context, cmds []*redis.StringCmd) {
	fail := func(err error) {
		for _, c := range cmds {
			c.SetErr(err)
		}
	}
	if l.dials > 0 {
		select {
		case <-time.After(l.dials):
		case <-ctx.Done():
			fail(ctx.Err())
			return
		}
	}
	var names []string
	for _, c := range cmds {
		names = append(names, c.Args()[0].(string))
	}
	l.mu.Lock()
	l.went = append(l.went, strings.Join(names, " "))
	l.under++
	takes := l.takes()
	l.mu.Unlock()
	if at, ok := ctx.Deadline(); ok && time.Until(at) < takes {
		time.Sleep(time.Until(at))
		fail(context.DeadlineExceeded)
	} else {
		time.Sleep(takes)
		for i, c := range cmds {
			c.SetVal(names[i])
		}
	}
	l.mu.Lock()
	l.under--
	l.mu.Unlock()
}

// call returns the reply to a command of that name, or the error.
func (l *line) call(ctx context.Context, name string) string {
	l.work.Add(1)
	defer l.work.Done()
	cmd := redis.NewStringCmd(ctx, name)
	if err := l.do(ctx, cmd); err != nil {
		if errors.Is(err, store.ErrNotExecuted) && errors.Is(err, ctx.Err()) {
			return "not sent"
		}
		return "gave up: " + err.Error()
	}
	v, err := cmd.Result()
	if err != nil {
		return "error: " + err.Error()
	}
	return v
}

// calls makes one call after the other, a to z, with as long as each has, and returns the
// replies with the time at which they came. 0 is for ever.
func (l *line) calls(ctx context.Context, each ...time.Duration) []string {
	begin, replies := time.Now(), make([]string, len(each))
	var all sync.WaitGroup
	for i, d := range each {
		all.Go(func() {
			ctx := ctx
			if d > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, d)
				defer cancel()
			}
			reply := l.call(ctx, string(rune('a'+i)))
			replies[i] = fmt.Sprint(reply, " ", time.Since(begin))
		})
		synctest.Wait()
	}
	all.Wait()
	l.work.Wait()
	return replies
}

func (l *line) rests(t *testing.T) {
	t.Helper()
	if l.lanes != 0 || len(l.waiting) != 0 {
		t.Errorf("%d lanes are in use, %d wait, when nobody is left", l.lanes, len(l.waiting))
	}
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWhatComesWhileFourAreUnderWayGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		got := l.calls(t.Context(), 0, 0, 0, 0, 0, 0, 0)
		same(t, got, "a 2ms", "b 2ms", "c 2ms", "d 2ms", "e 4ms", "f 4ms", "g 4ms")
		same(t, l.went, "a", "b", "c", "d", "e f g")
		l.rests(t)
	})
}

func TestWhoHasWaitedForLongGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		slow := 4
		l.takes = func() time.Duration {
			if slow--; slow >= 0 {
				return time.Minute
			}
			return 2 * time.Millisecond
		}
		got := l.calls(t.Context(), 0, 0, 0, 0, 0, 0)
		same(t, got, "a 1m0s", "b 1m0s", "c 1m0s", "d 1m0s", "e 7ms", "f 7ms")
		slices.Sort(l.went)
		same(t, l.went, "a", "b", "c", "d", "e", "f")
		l.rests(t)
	})
}

func TestNotAllThatWaitGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		var all sync.WaitGroup
		for i := range mostLanes + mostTogether + 2 {
			all.Go(func() { l.call(t.Context(), strconv.Itoa(i)) })
			synctest.Wait()
		}
		all.Wait()
		l.work.Wait()
		var sizes []int
		for _, batch := range l.went {
			sizes = append(sizes, strings.Count(batch, " ")+1)
		}
		slices.Sort(sizes)
		if want := []int{1, 1, 1, 1, 2, mostTogether}; !slices.Equal(sizes, want) {
			t.Errorf("%d go together, want %d", sizes, want)
		}
		l.rests(t)
	})
}

func TestWhoGivesUpWhileHeWaitsIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		got := l.calls(t.Context(), 0, 0, 0, 0, 0, time.Millisecond, 0)
		same(t, got, "a 2ms", "b 2ms", "c 2ms", "d 2ms", "e 4ms", "not sent 1ms", "g 4ms")
		same(t, l.went, "a", "b", "c", "d", "e g")
		l.rests(t)
	})
}

func TestWhoseTimeEndsOnTheWayHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		got := l.calls(t.Context(), 0, 0, 0, 0, 3*time.Millisecond, 5*time.Millisecond)
		same(t, got, "a 2ms", "b 2ms", "c 2ms", "d 2ms", "gave up: context deadline exceeded 3ms", "f 4ms")
		same(t, l.went, "a", "b", "c", "d", "e f")
		l.rests(t)
	})
}

func TestABatchLastsAsLongAsTheLastOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		got := l.calls(t.Context(), 0, 0, 0, 0, 2800*time.Microsecond, 3200*time.Microsecond)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.under != 0 {
			t.Error("a batch goes on that nobody waits for")
		}
		if got[4] != "gave up: context deadline exceeded 2.8ms" || !strings.HasSuffix(got[5], "context deadline exceeded 3.2ms") {
			t.Errorf("%q, want an end after 2.8ms and 3.2ms", got[4:])
		}
		l.rests(t)
	})
}

// What follows a cancelled exchange is not to be overtaken by it.
func TestWhoIsCancelledOnTheWayWaitsUntilHisDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for lasts, want := range map[time.Duration]string{
			time.Minute:             "x 4ms",
			3500 * time.Microsecond: "gave up: context deadline exceeded 3.5ms",
		} {
			l := newLine()
			var others sync.WaitGroup
			for range mostLanes {
				others.Go(func() { l.call(t.Context(), "other") })
			}
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), lasts)
			time.AfterFunc(3*time.Millisecond, cancel)
			begin := time.Now()
			same(t, []string{fmt.Sprint(l.call(ctx, "x"), " ", time.Since(begin))}, want)
			others.Wait()
			l.work.Wait()
			l.rests(t)
		}
	})
}

func TestWhatAllHaveGivenUpIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		var others sync.WaitGroup
		for range mostLanes {
			others.Go(func() { l.call(t.Context(), "other") })
		}
		synctest.Wait()
		time.Sleep(time.Millisecond)
		l.dials = time.Minute
		begin := time.Now()
		for i, cancelled := range []time.Duration{2 * time.Millisecond, 3 * time.Millisecond} {
			others.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				time.AfterFunc(cancelled, cancel)
				same(t, []string{fmt.Sprint(l.call(ctx, string(rune('x'+i))), " ", time.Since(begin))}, "error: context canceled 3ms")
			})
			synctest.Wait()
		}
		others.Wait()
		l.work.Wait()
		same(t, l.went, "other", "other", "other", "other")
		l.rests(t)
	})
}

func TestABatchWhoseGoroutineEndsIsAnsweredAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		l.all = func(context.Context, []*redis.StringCmd) { runtime.Goexit() }
		got := l.calls(t.Context(), 0, 0, 0, 0, 0, 0)
		same(t, got[4:], "error: no reply 2ms", "error: no reply 2ms")
		l.rests(t)
	})
}

func TestALaneComesBackAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		reply := l.one
		l.one = func(context.Context, *redis.StringCmd) { panic("a hook") }
		for range 2 * mostLanes {
			func() {
				defer func() { recover() }()
				l.call(t.Context(), "x")
			}()
		}
		l.one = reply
		same(t, l.calls(t.Context(), 0), "a 2ms")
		l.rests(t)
	})
}

// Whatever ends when: each command is sent at most once, in time, and has its own reply.
func TestRandomCallsHaveTheirOwnReplies(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			l, random := newLine(), rand.New(rand.NewPCG(seed, 7))
			slow := rand.New(rand.NewPCG(seed, 8))
			l.takes = func() time.Duration { return time.Duration(slow.IntN(8000)) * time.Microsecond }
			var all sync.WaitGroup
			var sent, unsent, replied atomic.Int64
			for i := range 60 {
				begin, lasts := time.Duration(random.IntN(18000))*time.Microsecond, time.Duration(random.IntN(8000))*time.Microsecond
				all.Go(func() {
					time.Sleep(begin)
					ctx := t.Context()
					if i%3 > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, lasts)
						defer cancel()
					}
					at, name := time.Now(), strconv.Itoa(i)
					switch reply := l.call(ctx, name); {
					case reply == name:
						replied.Add(1)
					case strings.HasPrefix(reply, "not sent"):
						unsent.Add(1)
					case !strings.Contains(reply, "deadline"):
						t.Errorf("seed %d: %s has the reply %q", seed, name, reply)
					}
					if took := time.Since(at); i%3 > 0 && took > lasts || took > patience+8*time.Millisecond {
						t.Errorf("seed %d: %s took %v, and had %v", seed, name, took, lasts)
					}
				})
			}
			all.Wait()
			l.work.Wait()
			seen := make(map[string]bool)
			for _, batch := range l.went {
				for name := range strings.FieldsSeq(batch) {
					if seen[name] {
						t.Errorf("seed %d: %s is sent twice", seed, name)
					}
					seen[name] = true
					sent.Add(1)
				}
			}
			if sent.Load()+unsent.Load() != 60 || replied.Load() == 0 {
				t.Errorf("seed %d: %d of 60 are sent, %d not, %d replied to", seed, sent.Load(), unsent.Load(), replied.Load())
			}
			l.rests(t)
		})
	}
}

// What goes together is charged as what goes alone, and reads its own answer.
func TestExchangesThatGoTogetherAreAnsweredEach(t *testing.T) {
	t.Parallel()
	s, _ := one(t)
	const nodes, rounds = 32, 50
	limits := []store.Limit{{Kind: store.Window, Quota: 1e6, Per: 24 * time.Hour}}
	var granted atomic.Int64
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() {
			node, it := store.NewNode(), store.Item{Key: "key" + strconv.Itoa(i%4), Limits: limits, Version: 1, Want: 1}
			for range rounds {
				it.Seq++
				answers, err := s.Exchange(t.Context(), node, []store.Item{it})
				if err != nil {
					t.Error(err)
					return
				}
				a := answers[0]
				if a.Node != node || a.Key != it.Key || a.Seq != it.Seq {
					t.Errorf("another's answer: %+v", a)
				}
				granted.Add(a.Granted)
				it.Epoch, it.Seen = a.Epoch, a.Gen
			}
		})
	}
	all.Wait()
	if granted.Load() != nodes*rounds {
		t.Errorf("%d granted, want %d", granted.Load(), nodes*rounds)
	}
}

// The client leaves the commands without an error then.
func TestExchangesWithoutAConnectionHaveItsError(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, "--requirepass", "right")
	s := open(t, Config{Addrs: []string{r.Addr}, Password: func(context.Context) (string, error) { return "wrong", nil }})
	node, limits := store.NewNode(), []store.Limit{{Quota: 10, Per: time.Second}}
	_, err := s.Exchange(t.Context(), node, []store.Item{{Key: "a", Seq: 1, Limits: limits, Version: 1}, {Key: "b", Seq: 1, Limits: limits, Version: 1}})
	if !errors.Is(err, store.ErrNotExecuted) || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("%v, want ErrNotExecuted, as the server wants another password", err)
	}
	if n := s.strange.Load(); n != 0 {
		t.Errorf("%d replies make no sense, when there were none", n)
	}
}

// A command that was given up belongs to who still sends it.
func TestAPutThatIsGivenUpSaysSo(t *testing.T) {
	t.Parallel()
	s, r := one(t)
	put := func(lasts time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		_, err := s.Meta(ctx, store.MetaOp{Do: store.Put, Key: "k", Value: []byte("1")})
		return err
	}
	r.Must("CLIENT", "PAUSE", "2000", "ALL")
	var all sync.WaitGroup
	for range mostLanes {
		all.Go(func() { put(time.Minute) })
	}
	await(t, func() bool {
		s.batcher.mu.Lock()
		defer s.batcher.mu.Unlock()
		return s.batcher.lanes == mostLanes
	})
	if err := put(patience / 2); !errors.Is(err, store.ErrNotExecuted) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want ErrNotExecuted, since it had to wait", err)
	}
	all.Wait()
}

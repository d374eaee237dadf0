package policy

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/direct"
)

// short is a layer with a short way, that writes down what happens.
type short struct {
	layer
	name   string
	log    *[]string
	shut   bool // Enter reports false
	panics bool // Leave and Abort do
	clock  bool
}

func (s *short) Direct(of any, _ time.Time) (direct.Route, bool) {
	return direct.Route{Way: s, Clock: s.clock}, of == any(s)
}

func (s *short) note(format string, args ...any) {
	*s.log = append(*s.log, s.name+fmt.Sprintf(format, args...))
}

func (s *short) Enter(at time.Duration) (direct.Pass, bool) {
	if s.note(" enter %v", at); s.shut {
		return direct.Pass{}, false
	}
	return direct.Pass{A: int64(len(s.name)), B: int64(at)}, true
}

func (s *short) Leave(p direct.Pass) { s.note(" leave %d", p.A); s.mayPanic() }
func (s *short) Abort(p direct.Pass) { s.note(" abort %d", p.A); s.mayPanic() }

func (s *short) mayPanic() {
	if s.panics {
		panic(s.name)
	}
}

func (s *short) Wrap(next Handler) Handler {
	return func(c *Call) error {
		p, ok := c.Entered()
		s.note(" handles %d %v, %v", p.A, ok, c.Err())
		err := next(c)
		s.note(" had %v", err)
		return err
	}
}

// shorts are layers a, bb and ccc.
func shorts() (log *[]string, a, b, c *short) {
	log = new([]string)
	return log, &short{name: "a", log: log}, &short{name: "bb", log: log}, &short{name: "ccc", log: log}
}

func wantLog(t *testing.T, log *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*log, want) {
		t.Errorf("got  %q\nwant %q", *log, want)
	}
	*log = nil
}

func TestACallThatNothingIsInTheWayOfPassesDirectly(t *testing.T) {
	log, a, b, _ := shorts()
	r, err := Do(t.Context(), Chain(a, b), func(context.Context) (int, error) { a.note(" fn"); return 5, nil })
	want(t, "result", r, 5)
	wantErr(t, "Do", err)
	wantLog(t, log, "a enter 0s", "bb enter 0s", "a fn", "bb leave 2", "a leave 1")
}

func TestALayerThatIsShutHandlesTheCall(t *testing.T) {
	log, a, b, c := shorts()
	b.shut = true
	r, err := Do(t.Context(), Chain(a, b, c), func(context.Context) (int, error) { return 5, nil })
	want(t, "result", r, 5)
	wantErr(t, "Do", err)
	wantLog(t, log, "a enter 0s", "bb enter 0s",
		"a handles 1 true, <nil>", "bb handles 0 false, <nil>", "ccc handles 0 false, <nil>", "ccc had <nil>", "bb had <nil>", "a had <nil>")
}

func TestTheHandlersGoOnWithAnErrorAndDoNotCallAgain(t *testing.T) {
	log, a, b, _ := shorts()
	calls, ctx := 0, t.Context()
	p := Chain(a, around(func(c *Call, next Handler) error { _ = next(c); return next(c) }), b)
	p.short = shortcutOf([]Policy{a, b}, p.base) // as a layer that repeats and has no way
	r, err := Do(ctx, p, func(context.Context) (int, error) { calls++; return calls, errBoom })
	want(t, "result", r, 2)
	want(t, "calls", calls, 2)
	wantErr(t, "Do", err, errBoom)
	wantLog(t, log, "a enter 0s", "bb enter 0s", "a handles 1 true, <nil>",
		"bb handles 2 true, <nil>", "bb had boom", "bb handles 0 false, <nil>", "bb had boom", "a had boom")
}

func TestAnErrorThatCameWithTheEndOfTheContextIsHandled(t *testing.T) {
	log, a, _, _ := shorts()
	ctx, cancel := context.WithCancel(t.Context())
	fn := func(context.Context) (int, error) { cancel(); return 0, context.Canceled }
	_, err := Do(ctx, Chain(a), fn)
	wantErr(t, "Do", err, context.Canceled)
	wantLog(t, log, "a enter 0s", "a handles 1 true, <nil>", "a had context canceled")
	_, _ = Do(ctx, Chain(a), fn)
	wantLog(t, log, "a handles 0 false, context canceled", "a had context canceled")
}

func TestLayersAreLeftWhateverHappens(t *testing.T) {
	log, a, b, c := shorts()
	p := Chain(a, b, c)
	entered := []string{"a enter 0s", "bb enter 0s", "ccc enter 0s"}
	for name, fn := range map[string]func(context.Context) (int, error){"panic": panics, "Goexit": goexit} {
		h := see(func() error { _, err := Do(t.Context(), p, fn); return err })
		want(t, name, h.goexit, name == "Goexit")
		wantLog(t, log, append(entered, "ccc abort 3", "bb abort 2", "a abort 1")...)
	}
	b.panics = true
	h := see(func() error { _, err := Do(t.Context(), p, goexit); return err })
	want(t, "panic", h.panics, any("bb"))
	wantLog(t, log, append(entered, "ccc abort 3", "bb abort 2", "a abort 1")...)
	h = see(func() error { _, err := Do(t.Context(), p, slow(0, 1)); return err })
	want(t, "panic", h.panics, any("bb"))
	wantLog(t, log, append(entered, "ccc leave 3", "bb leave 2", "a abort 1")...)
}

func TestTheClockIsReadOnceForAllWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, a, b, _ := shorts()
		b.clock = true
		begin, seen := time.Now(), time.Time{}
		p := Chain(a, b)
		time.Sleep(time.Second)
		fn := func(context.Context) (int, error) { time.Sleep(time.Second); return 0, errBoom }
		p.handler = func(c *Call) error { seen = c.Now(); _ = c.run(); return c.Err() }
		_, _ = Do(t.Context(), p, fn)
		wantLog(t, log, "a enter 1s", "bb enter 1s")
		want(t, "the handlers' clock", seen.Sub(begin), time.Second)
	})
}

// mine is a policy with a Wrap of its own that has inherited a short way.
type mine struct{ *Bulkhead }

func (mine) Wrap(Handler) Handler { return func(*Call) error { return errBoom } }

func TestAShortWayIsForThePolicyItselfAndForFew(t *testing.T) {
	room := must(NewBulkhead(BulkheadConfig{}))
	_, a, b, c := shorts()
	many := []Policy{a, b, c, room}
	want(t, "many", Chain(many...).short.open, true)
	want(t, "too many", Chain(append(many, room)...).short.open, false)
	want(t, "one without", Chain(a, pass("x")).short.open, false)
	want(t, "none", Chain().short.open, false)
	_, err := Do(t.Context(), Chain(mine{room}), slow(0, 1))
	wantErr(t, "a Wrap of its own", err, errBoom)
	_, err = Do(t.Context(), Chain(mine{}), slow(0, 1))
	wantErr(t, "nothing embedded", err, errBoom)
}

// A call is used again, and must not seem to have entered what an earlier one had.
func TestNothingIsLeftOfATrailWhenItsCallHasEnded(t *testing.T) {
	log, a, b, c := shorts()
	b.shut = true
	for name, p := range map[string]*Pipeline{"ran": Chain(a, c), "shut": Chain(a, b, c)} {
		for range 100 { // the pool may drop calls
			_, _ = Do(t.Context(), p, fails)
			if c, ok := p.calls.Get().(*typed[int]); ok {
				if _, entered := c.Entered(); entered || c.trail.ran || c.trail.err != nil || c.val != 0 {
					t.Fatalf("%s: %+v is left", name, *c.trail)
				}
				p.calls.Put(c)
			}
		}
	}
	*log = nil
}

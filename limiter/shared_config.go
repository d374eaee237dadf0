package limiter

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
)

// SharedConfig says what a Shared admits. The zero value is a server's: 1000 calls
// of a key per minute, and what is beyond that is rejected at once.
type SharedConfig struct {
	// Name is that of the limiter in its events.
	Name string

	// Limiters are asked with the key of a call, Whole with the key "", as are those
	// that ignore keys, so that these are limits on all keys together. A call takes
	// permits from all of them, or from none. Each may be there once, and belongs to
	// the Shared from NewShared on. When there are none of both, there is a FixedWindow
	// of 1000 permits of a key per minute.
	//
	// A limiter that is not of this package, and one that embeds one that is, may have
	// any rule. So after whatever it is told of a key it is asked again for all that
	// wait. One with an OnChange of its own, not of something that it embeds, is asked
	// for that key alone: by OnChange it says when calls of others may go.
	Limiters, Whole []Limiter

	// MaxQueue is how many calls may wait: 0, which means that none waits, up to
	// 1<<30.
	MaxQueue int

	// Newest serves the newest of the calls that wait first. What comes to a full
	// queue then displaces the oldest that waits, instead of being rejected.
	Newest bool

	// MaxWait is how long a call may wait. One that would have to wait longer,
	// were it alone, is rejected at once. 0 means 10 s; less than 0: no limit but
	// that of its context.
	MaxWait time.Duration

	// Key and Permits say of a call in a chain, by its context, whose it is and how
	// many permits it takes. nil: "", and 1. What panics in them passes through to
	// the caller.
	Key     func(context.Context) string
	Permits func(context.Context) int

	// DrainOn is asked about each call in a chain or through Do that has ended. When
	// it is true, all permits that there are for the call's key are taken out of the
	// limits: the vendor has said that there are none left. See policy.OnError and
	// policy.OnResult. nil: never.
	DrainOn policy.Predicate

	// RefusedOn is asked about each call in a chain or through Do that has ended:
	// true means that the vendor refused it because there were too many. The limiters
	// are told Refused then, and Accepted of another call without an error, so that
	// one that learns, as an Adaptive, does, and pauses. All other errors teach
	// nothing, nor does a call that was not made or took no permits. See
	// policy.OnError and policy.OnResult. nil: none was refused.
	RefusedOn policy.Predicate

	// OnError replaces the error that leaves a chain's layer or Do, the Shared's own
	// or the call's; nil as a replacement is success. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears what is decided, in its order, one event at a time and on a
	// goroutine of its own. It may block, panic and call methods of the Shared: no
	// call waits for it; when it is more than 1024 events behind, the oldest are
	// dropped. An event has the Name, the number of the call as its Request, and the
	// key as its Source:
	//
	//	event.Started       the call was admitted (Delay: after it had waited so long)
	//	event.Queued        it waits (Delay: for how long at least)
	//	event.LimitRefused  it was rejected (Err, Delay: RetryAfter of Err, 0 for Never)
	//	event.Overflow      it was, because of a full queue (Err, Delay: RetryAfter of Err)
	//	event.Cancelled     it ended in the queue because its context did (Err)
	//	event.Clamped       the vendor's refusal asked for more than a day: an Adaptive
	//	                    pauses for that (Delay: a day; Err: the refusal; no Request)
	//	event.Depleted      the call took the last permit of a Counter that there was;
	//	                    without a Request: the permits of the key were drained
	OnEvent func(event.Event)
}

// NewShared returns a Shared in which nothing is taken. The error names the field
// that is out of range.
func NewShared(cfg SharedConfig) (*Shared, error) {
	if len(cfg.Limiters)+len(cfg.Whole) == 0 {
		w, err := NewFixedWindow(FixedWindowConfig{Limit: 1000, Period: time.Minute})
		if err != nil {
			return nil, err
		}
		cfg.Limiters = []Limiter{w}
	}
	if cfg.MaxQueue < 0 || cfg.MaxQueue > 1<<30 {
		return nil, invalidf("SharedConfig.MaxQueue is %d, want 0 up to 1<<30", cfg.MaxQueue)
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = 10 * time.Second
	}
	s := &Shared{
		name: cfg.Name, maxWait: cfg.MaxWait, queue: newQueue(cfg.MaxQueue, cfg.Newest),
		reach: make(map[reflect.Type]reach), key: cfg.Key, permits: cfg.Permits, drainOn: cfg.DrainOn, refusedOn: cfg.RefusedOn, onError: cfg.OnError,
	}
	if err := s.add("Limiters", &s.limiters, cfg.Limiters); err != nil {
		return nil, err
	}
	if err := s.add("Whole", &s.whole, cfg.Whole); err != nil {
		return nil, err
	}
	s.bus.Listen(cfg.OnEvent)
	for _, p := range s.parts() {
		if n, ok := p.Limiter.(Notifier); ok {
			n.OnChange(func() { s.Update(func(time.Time) {}) })
		}
	}
	return s, nil
}

// add adds the limiters of a field of the configuration to those that are asked in one
// way. Those that ignore keys belong to the whole: who waits for them waits for a call
// of any key to end.
func (s *Shared) add(field string, to *[]part, limiters []Limiter) error {
	for i, l := range limiters {
		parts, name := to, fmt.Sprintf("%s[%d]", field, i)
		if err := checkLimiter("SharedConfig."+name, l); err != nil {
			return err
		}
		if ignoresKeys(l) {
			parts = &s.whole
		}
		if j := slices.IndexFunc(*parts, func(p part) bool { return same(p.Limiter, l) }); j >= 0 {
			// Each is asked before any is taken from: it would give what it has twice.
			return invalidf("SharedConfig.%s is %s, want each once", name, (*parts)[j].name)
		}
		s.know(l)
		_, releases := l.(Releaser)
		s.releases = s.releases || releases
		claims, _ := l.(Claimer)
		*parts = append(*parts, part{l, claims, isSoft(l), name})
	}
	return nil
}

// know looks up whom else it concerns what l is told of one key.
func (s *Shared) know(l Limiter) {
	if b, ok := l.(*ByKey); ok {
		for _, l := range b.all {
			s.know(l)
		}
		return
	}
	s.reach[reflect.TypeOf(l)] = reachOf(l)
}

// same reports whether a and b are one limiter. Those that are no pointers may be
// equal and yet be two, or not comparable at all.
func same(a, b Limiter) bool {
	return reflect.TypeOf(a).Kind() == reflect.Pointer && reflect.TypeOf(a) == reflect.TypeOf(b) && a == b
}

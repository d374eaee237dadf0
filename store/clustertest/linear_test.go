package clustertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/faultproxy"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
	"github.com/flyball-go/flyball/store/redisstore"
)

// op is one request, whose answer may have taken several tries under its number.
type op struct {
	key   string
	node  store.Node
	item  store.Item
	drain bool // an operation of one who takes all that is left
}

func (o op) client() int { return int(o.node[0] - 'a') }

// givenUp is the output of an operation that was given up: it happened, or not, at any
// time after it was begun. It never returns.
type givenUp struct{}

// stock is the model of one limit of a window that does not end, and of slots: what
// the store may say next, whatever it has said.
type stock struct {
	taken int64
	open  [clients + 1]int64 // permits granted to each, and to who takes what is left
	held  [clients + 1]int64 // slots
}

const (
	clients  = 5
	stockOf  = 60
	slotsOf  = 7
	perOp    = 25 // operations of each client: short enough to be decided
	lostOp   = 3  // that of each client that is given up, of so many permits
	linearly = patience
)

// modelOf decides each key by itself. What was given up may have taken what it wanted,
// or that times loose.
func modelOf(loose int64) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, o := range history {
				k := o.Input.(op).key
				byKey[k] = append(byKey[k], o)
			}
			var parts [][]porcupine.Operation
			for _, p := range byKey {
				parts = append(parts, p)
			}
			return parts
		},
		Init: func() []any { return []any{stock{}} },
		Step: func(state, input, output any) []any {
			in := input.(op)
			if out, ok := output.(store.Answer); ok {
				return state.(stock).heard(in, out)
			}
			next := []any{state}
			for taken := range loose*in.item.Want + 1 {
				s, i := state.(stock), in.client()
				s.held[i] = min(s.held[i], in.item.Held)
				if s.taken += taken; s.taken <= stockOf {
					next = append(next, s)
				}
			}
			return next
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(input, output any) string {
			in := input.(op)
			text := fmt.Sprintf("%s %d: want %d return %d hold %d+%d", in.node, in.item.Seq, in.item.Want, in.item.Returned, in.item.Held, in.item.WantSlots)
			if out, ok := output.(store.Answer); ok {
				return fmt.Sprintf("%s -> %d, %d", text, out.Granted, out.Held)
			}
			return text + " -> nobody heard"
		},
	}
	return m.ToModel()
}

// heard is what may follow an operation and its answer: nothing, if that is wrong.
func (s stock) heard(in op, out store.Answer) []any {
	i := in.client()
	back := min(in.item.Returned, s.open[i])
	s.taken -= back
	s.open[i] += out.Granted - back
	s.taken += out.Granted
	ok := out.Granted <= in.item.Want && s.taken <= stockOf
	if in.drain {
		ok = ok && s.taken == stockOf // else something was charged to nobody
	}
	others := int64(0)
	for j, h := range s.held {
		if j != i {
			others += h
		}
	}
	// Slots that are asked back are held until they are given back.
	s.held[i] = max(out.Held, min(in.item.Held, s.held[i]))
	if !ok || others+s.held[i] > slotsOf {
		return nil
	}
	return []any{s}
}

// link is a client's way to the store.
type link struct {
	store.Store

	// fail has answers, or also requests, be lost until mend.
	fail func(requests bool)
	mend func()
}

// faults says what happens to the operations of a history.
type faults uint8

const (
	noFault  faults = iota
	giveUp          // one of each client is not answered, and given up
	allKinds        // so are others, of which the request may be lost; and others are repeated until there is an answer
)

// history has clients ask at once. An operation lasts from the first try to the answer.
func history(t *testing.T, links []*link, f faults) []porcupine.Operation {
	key := store.KeyFor("linear", string(store.NewNode()))
	limit := []store.Limit{{Kind: store.Window, Quota: stockOf, Per: 31 * 24 * time.Hour, Transit: -1}}
	start := time.Now()
	var mu sync.Mutex
	var ops []porcupine.Operation
	do := func(i int, in op, tries int) (store.Answer, bool) {
		o := porcupine.Operation{ClientId: i, Input: in, Call: int64(time.Since(start)), Output: givenUp{}, Return: math.MaxInt64}
		for range tries {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			as, err := links[i%clients].Exchange(ctx, in.node, []store.Item{in.item})
			cancel()
			if err == nil && as[0].Err == nil {
				o.Output, o.Return = as[0], int64(time.Since(start))
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, o)
		a, ok := o.Output.(store.Answer)
		return a, ok
	}
	const often = 100
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			node := store.Node(string(rune('a'+i)) + string(store.NewNode())[:8])
			var has, held int64
			for seq := uint64(1); seq <= perOp; seq++ {
				it := store.Item{Key: key, Seq: seq, Limits: limit, Version: 1, Want: rand.Int64N(4), Slots: slotsOf, WantSlots: rand.Int64N(4)}
				it.Returned, it.Held = rand.Int64N(has+1), rand.Int64N(held+1)
				if f >= giveUp && seq == lostOp || f == allKinds && rand.IntN(12) == 0 {
					it.Want, it.Returned, it.Held, it.WantSlots = lostOp, 0, held, 0
					links[i].fail(seq != lostOp && rand.IntN(2) == 0)
					a, heard := do(i, op{key: key, node: node, item: it}, 1)
					if has += a.Granted; heard {
						held = a.Held
					}
					links[i].mend()
					continue
				}
				if f == allKinds && rand.IntN(6) == 0 {
					links[i].fail(false)
					time.AfterFunc(50*time.Millisecond, links[i].mend)
				}
				a, ok := do(i, op{key: key, node: node, item: it}, often)
				if !ok {
					t.Error("no answer")
					return
				}
				has += a.Granted - it.Returned
				held = a.Held
			}
		})
	}
	wg.Wait()
	// One takes what is left.
	node, seq := store.Node(string(rune('a'+clients))+string(store.NewNode())[:8]), uint64(0)
	for none := 0; none < 3; {
		seq++
		a, _ := do(clients, op{key: key, node: node, item: store.Item{Key: key, Seq: seq, Limits: limit, Version: 1, Want: stockOf}}, often)
		if none++; a.Granted > 0 {
			none = 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	last := &ops[len(ops)-1]
	in := last.Input.(op)
	in.drain = true
	last.Input = in
	return ops
}

func openStore(t *testing.T, s *server, addr string, ttl time.Duration) store.Store {
	t.Helper()
	var e store.Store
	var err error
	if s.redis != nil {
		e, err = redisstore.New(redisstore.Config{Addrs: []string{addr}, TTL: ttl})
	} else {
		e, err = mysqlstore.Open(t.Context(), mysqlstore.Config{DSN: s.dsn(addr), TTL: ttl})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Whatever order requests arrive in, and however often, answers are those of some
// order in which each was executed once; or not at all, if nobody heard of it.
func TestExchangesAndSlotsAreLinearizable(t *testing.T) {
	for _, kind := range []string{"memory", "redis", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			links := linksTo(t, kind)
			for range effort.Times(2) {
				if got := porcupine.CheckOperationsTimeout(modelOf(1), history(t, links, allKinds), linearly); got != porcupine.Ok {
					t.Errorf("a history is %v, want Ok", got)
				}
			}
		})
	}
}

func linksTo(t *testing.T, kind string) (links []*link) {
	if kind == "memory" {
		m := newMemory(t)
		return lossyTo(m, m)
	}
	s := startServer(t, kind, 0)
	if err := s.unused(); err != nil {
		t.Fatal(err)
	}
	for range clients {
		p, err := faultproxy.Listen(s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		links = append(links, &link{openStore(t, s, p.Addr(), time.Minute),
			func(requests bool) { p.Set(faultproxy.Fault{DropAnswers: true, DropRequests: requests}) },
			func() {
				p.Set(faultproxy.Fault{})
				p.Cut()
			}})
	}
	return links
}

// lossy is a link to a store in this process. What is not heard is executed by unheard.
type lossy struct {
	store.Store
	unheard       store.Store
	asks, answers atomic.Bool // are lost
}

func (l *lossy) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if l.asks.Load() {
		return nil, errors.New("lost")
	}
	if l.answers.Load() {
		l.unheard.Exchange(ctx, node, items)
		return nil, errors.New("swallowed")
	}
	return l.Store.Exchange(ctx, node, items)
}

// lossyTo returns links to s, of which unheard executes what is not heard.
func lossyTo(s, unheard store.Store) (links []*link) {
	for range clients {
		l := &lossy{Store: s, unheard: unheard}
		links = append(links, &link{l, func(requests bool) { l.asks.Store(requests); l.answers.Store(true) },
			func() { l.asks.Store(false); l.answers.Store(false) }})
	}
	return links
}

// Stores that break a promise have histories that no order explains.
func TestAStoreThatIsNotLinearizableIsCaught(t *testing.T) {
	for name, s := range map[string]store.Store{
		"charges what is repeated":   &twice{Store: newMemory(t)},
		"grants one for nothing":     &free{Store: newMemory(t)},
		"has a slot for everybody":   &broken{Store: newMemory(t), how: slotsForMe, seen: map[string]uint64{}},
		"loses part of what it took": &broken{Store: newMemory(t), how: leaks, seen: map[string]uint64{}},
	} {
		if got := porcupine.CheckOperationsTimeout(modelOf(1), history(t, lossyTo(s, s), noFault), linearly); got != porcupine.Illegal {
			t.Errorf("of a store that %s a history is %v, want Illegal", name, got)
		}
	}
}

// A store that charges twice what nobody heard of does nothing wrong that anybody was
// told: it is found by how much can have been taken by what never returned.
func TestWhatNobodyHeardOfIsChargedOnce(t *testing.T) {
	m := newMemory(t)
	s := &twice{Store: m, never: true}
	ops := history(t, lossyTo(s, &twice{Store: m, always: true}), giveUp)
	if got := porcupine.CheckOperationsTimeout(modelOf(1), ops, linearly); got != porcupine.Illegal {
		t.Errorf("the history is %v, want Illegal", got)
	}
	if got := porcupine.CheckOperationsTimeout(modelOf(stockOf), ops, linearly); got != porcupine.Ok {
		t.Errorf("where what is lost may have taken anything, the history is %v, want Ok", got)
	}
}

// twice executes every fifth request once more, under another number; or never one, or
// always.
type twice struct {
	store.Store
	n             atomic.Int64
	never, always bool
}

func (s *twice) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	items = append([]store.Item(nil), items...)
	for i := range items {
		items[i].Seq *= 2
	}
	as, err := s.Store.Exchange(ctx, node, items)
	for i := range as {
		as[i].Seq /= 2
	}
	if s.always || !s.never && s.n.Add(1)%5 == 0 {
		again := append([]store.Item(nil), items...)
		for i := range again {
			again[i].Seq++
		}
		return s.Store.Exchange(ctx, node, again)
	}
	return as, err
}

// free grants one more, now and then, if more was wanted.
type free struct {
	store.Store
	n atomic.Int64
}

func (s *free) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	as, err := s.Store.Exchange(ctx, node, items)
	if err == nil && s.n.Add(1)%5 == 0 && as[0].Granted < items[0].Want {
		as[0].Granted++
	}
	return as, err
}

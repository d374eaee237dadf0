package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

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

// stock is the model of one limit of a window that does not end, and of slots: what
// the store may say next, whatever it has said.
type stock struct {
	taken int64
	open  [clients]int64 // permits granted to each
	held  [clients]int64 // slots
}

const (
	clients  = 5
	stockOf  = 60
	slotsOf  = 7
	perOp    = 25 // operations of each client: short enough to be decided
	linearly = 20 * time.Second
)

// model decides each key by itself.
var model = porcupine.Model{
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
	Init: func() any { return stock{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(stock), input.(op), output.(store.Answer)
		i := int(in.node[0] - 'a')
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
		return ok && others+s.held[i] <= slotsOf, s
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		in, out := input.(op), output.(store.Answer)
		return fmt.Sprintf("%s %d: want %d return %d hold %d+%d -> %d, %d", in.node, in.item.Seq, in.item.Want, in.item.Returned, in.item.Held, in.item.WantSlots, out.Granted, out.Held)
	},
}

// history has clients ask at once, each through a proxy that swallows answers, and
// repeat what was not answered: an operation lasts from the first try to the answer.
func history(t *testing.T, stores []store.Store, faults func(i int)) []porcupine.Operation {
	key := store.KeyFor("linear", string(store.NewNode()))
	limit := []store.Limit{{Kind: store.Window, Quota: stockOf, Per: 31 * 24 * time.Hour, Transit: -1}}
	start := time.Now()
	var mu sync.Mutex
	var ops []porcupine.Operation
	do := func(i int, s store.Store, in op) store.Answer {
		call := time.Since(start)
		for tries := 0; ; tries++ {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			as, err := s.Exchange(ctx, in.node, []store.Item{in.item})
			cancel()
			if err != nil || as[0].Err != nil {
				if tries > 100 {
					t.Errorf("no answer: %v", err)
					return store.Answer{}
				}
				continue
			}
			mu.Lock()
			defer mu.Unlock()
			ops = append(ops, porcupine.Operation{ClientId: i, Input: in, Call: int64(call), Output: as[0], Return: int64(time.Since(start))})
			return as[0]
		}
	}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			node := store.Node(string(rune('a'+i)) + string(store.NewNode())[:8])
			var has, held int64
			for seq := range uint64(perOp) {
				faults(i)
				it := store.Item{Key: key, Seq: seq + 1, Limits: limit, Version: 1, Want: rand.Int64N(4), Slots: slotsOf, WantSlots: rand.Int64N(4)}
				it.Returned, it.Held = rand.Int64N(has+1), rand.Int64N(held+1)
				a := do(i, stores[i], op{key: key, node: node, item: it})
				has += a.Granted - it.Returned
				held = a.Held
			}
		})
	}
	wg.Wait()
	// One takes what is left.
	node, seq := store.Node("a"+string(store.NewNode())[:8]), uint64(0)
	for none := 0; none < 3; {
		seq++
		a := do(0, stores[0], op{key: key, node: node, item: store.Item{Key: key, Seq: seq, Limits: limit, Version: 1, Want: stockOf}})
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

func openStore(t *testing.T, s *server, addr string) store.Store {
	t.Helper()
	var e store.Store
	var err error
	if s.redis != nil {
		e, err = redisstore.New(redisstore.Config{Addrs: []string{addr}, TTL: time.Minute})
	} else {
		e, err = mysqlstore.Open(t.Context(), mysqlstore.Config{DSN: s.dsn(addr), TTL: time.Minute})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Whatever order requests arrive in, and however often, answers are those of some
// order in which each was executed once.
func TestExchangesAndSlotsAreLinearizable(t *testing.T) {
	for _, kind := range []string{"memory", "redis", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			stores, faults := linearStores(t, kind)
			for range 5 {
				if got := porcupine.CheckOperationsTimeout(model, history(t, stores, faults), linearly); got != porcupine.Ok {
					t.Errorf("a history is %v, want Ok", got)
				}
			}
		})
	}
}

func linearStores(t *testing.T, kind string) (stores []store.Store, faults func(i int)) {
	if kind == "memory" {
		m, err := store.NewMemory(store.MemoryConfig{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for range clients {
			stores = append(stores, m)
		}
		return stores, func(int) {}
	}
	s := startServer(t, kind)
	s.unused()
	var proxies []*faultproxy.Proxy
	for range clients {
		p, err := faultproxy.Listen(s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		proxies = append(proxies, p)
		stores = append(stores, openStore(t, s, p.Addr()))
	}
	return stores, func(i int) {
		p := proxies[i]
		p.Set(faultproxy.Fault{DropAnswers: rand.IntN(6) == 0})
		time.AfterFunc(50*time.Millisecond, func() {
			p.Set(faultproxy.Fault{})
			p.Cut()
		})
	}
}

// Stores that break a promise have histories that no order explains.
func TestAStoreThatIsNotLinearizableIsCaught(t *testing.T) {
	m, err := store.NewMemory(store.MemoryConfig{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]store.Store{
		"charges what is repeated":   &twice{Store: m},
		"grants one for nothing":     &free{Store: m},
		"has a slot for everybody":   &broken{Store: m, how: slotsForMe, seen: map[string]uint64{}},
		"loses half of what it took": &broken{Store: m, how: leaks, seen: map[string]uint64{}},
	} {
		caught := false
		for range 5 {
			var stores []store.Store
			for range clients {
				stores = append(stores, s)
			}
			caught = caught || porcupine.CheckOperationsTimeout(model, history(t, stores, func(int) {}), linearly) == porcupine.Illegal
		}
		if !caught {
			t.Errorf("a store that %s passes", name)
		}
	}
}

// twice executes every fifth request once more, under another number.
type twice struct {
	store.Store
	n atomic.Int64
}

func (s *twice) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	for i := range items {
		items[i].Seq *= 2
	}
	as, err := s.Store.Exchange(ctx, node, items)
	if s.n.Add(1)%5 == 0 {
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

package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
)

// A check that cannot fail proves nothing: for each there is an engine that breaks
// one sentence of the contract, and the check has to say so.

// broken is a Memory whose requests and answers are changed on their way.
type broken struct {
	*store.Memory
	before   func(node *store.Node, it *store.Item)
	after    func(node store.Node, it store.Item, a *store.Answer)
	exchange func(m *store.Memory, ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error)
	meta     func(m *store.Memory, ctx context.Context, op store.MetaOp) ([]store.Record, error)
	watch    func(m *store.Memory, hint func(store.Hint)) (func(), error)
	open     bool // Close does nothing
}

func (b *broken) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if b.exchange != nil {
		return b.exchange(b.Memory, ctx, node, items)
	}
	sent := append([]store.Item(nil), items...)
	as := node
	for i := range sent {
		if b.before != nil {
			b.before(&as, &sent[i])
		}
	}
	answers, err := b.Memory.Exchange(ctx, as, sent)
	for i := range answers {
		answers[i].Node, answers[i].Seq = node, items[i].Seq
		if b.after != nil {
			b.after(node, items[i], &answers[i])
		}
	}
	return answers, err
}

func (b *broken) Meta(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
	if b.meta != nil {
		return b.meta(b.Memory, ctx, op)
	}
	return b.Memory.Meta(ctx, op)
}

func (b *broken) Watch(ctx context.Context, hint func(store.Hint)) (func(), error) {
	if b.watch != nil {
		return b.watch(b.Memory, hint)
	}
	return b.Memory.Watch(ctx, hint)
}

func (b *broken) Close() error {
	if b.open {
		return nil
	}
	return b.Memory.Close()
}

// seqs numbers items anew, so that a repeated one is another.
func seqs() func(*store.Node, *store.Item) {
	var mu sync.Mutex
	last := map[string]uint64{}
	return func(n *store.Node, it *store.Item) {
		mu.Lock()
		defer mu.Unlock()
		last[string(*n)+it.Key]++
		if it.Seq > 0 {
			it.Seq = last[string(*n)+it.Key]
		}
	}
}

// controls are the broken engines, by the check that has to catch each.
var controls = []struct {
	check, what string
	breaks      func(b *broken)
	lose        func(b *broken)
}{
	{check: "AnswersNameTheirRequests", what: "names another node", breaks: func(b *broken) {
		b.after = func(_ store.Node, _ store.Item, a *store.Answer) { a.Node = "x" }
	}},
	{check: "AnswersNameTheirRequests", what: "answers in another order", breaks: func(b *broken) {
		b.exchange = func(m *store.Memory, ctx context.Context, n store.Node, items []store.Item) ([]store.Answer, error) {
			as, err := m.Exchange(ctx, n, items)
			if len(as) > 1 {
				as[0], as[1] = as[1], as[0]
			}
			return as, err
		}
	}},
	{check: "ARepeatedRequestIsExecutedOnce", what: "executes again", breaks: func(b *broken) { b.before = seqs() }},
	{check: "ARepeatedRequestHasWhatIsLeft", what: "repeats the durations", breaks: func(b *broken) {
		said := map[string]store.Answer{}
		b.after = func(n store.Node, it store.Item, a *store.Answer) {
			id := fmt.Sprint(n, it.Key, it.Seq)
			if old, again := said[id]; again {
				*a = old
			}
			said[id] = *a
		}
	}},
	{check: "AnOlderRequestIsStale", what: "executes older requests", breaks: func(b *broken) { b.before = seqs() }},
	{check: "NonsenseIsInvalidAndNotExecuted", what: "makes sense of it", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Want = max(0, it.Want) }
	}},
	{check: "NonsenseIsInvalidAndNotExecuted", what: "rounds windows to its clock", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) {
			it.Limits = slices.Clone(it.Limits)
			for i := range it.Limits {
				it.Limits[i].Per = it.Limits[i].Per.Truncate(time.Microsecond)
			}
		}
	}},
	{check: "NonsenseIsInvalidAndNotExecuted", what: "executes what comes before it", breaks: func(b *broken) {
		b.exchange = func(m *store.Memory, ctx context.Context, n store.Node, items []store.Item) (as []store.Answer, err error) {
			if len(items) > store.MaxItems {
				return nil, store.ErrInvalid
			}
			for i := range items {
				a, err := m.Exchange(ctx, n, items[i:i+1])
				if err != nil {
					return nil, err
				}
				as = append(as, a...)
			}
			return as, nil
		}
	}},
	{check: "AnEndedContextIsNotExecuted", what: "executes without a context", breaks: func(b *broken) {
		b.exchange = func(m *store.Memory, ctx context.Context, n store.Node, items []store.Item) ([]store.Answer, error) {
			as, err := m.Exchange(context.WithoutCancel(ctx), n, items)
			return as, errors.Join(err, ctx.Err())
		}
	}},
	{check: "WantBoundsTheGrant", what: "grants one more", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Want++ }
	}},
	{check: "LeastIsGrantedOrNothing", what: "grants what there is", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Least = 0 }
	}},
	{check: "NoWindowHoldsMoreThanTheQuota", what: "has leases that outlive their step", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.ValidFor = 3 * a.ValidFor / 2 }
	}},
	{check: "NoWindowHoldsMoreThanTheQuota", what: "grants one for nothing", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.Granted += min(1, a.Granted) }
	}},
	{check: "ABucketSpreads", what: "forgets the burst", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) {
			for i, l := range it.Limits {
				l.Kind, l.Burst, l.Lease = store.Window, 0, 0
				it.Limits[i] = l
			}
		}
	}},
	{check: "AllLimitsOrNone", what: "goes by the last limit alone", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Limits = it.Limits[max(0, len(it.Limits)-1):] }
	}},
	{check: "AllLimitsOrNone", what: "charges what it does not grant", breaks: func(b *broken) {
		b.exchange = func(m *store.Memory, ctx context.Context, n store.Node, items []store.Item) ([]store.Answer, error) {
			as, err := m.Exchange(ctx, n, items)
			if err == nil && as[0].Granted == 0 && items[0].Want > 0 {
				m.Exchange(ctx, "rollback", []store.Item{{Key: items[0].Key, Seq: uint64(time.Now().UnixNano()) + items[0].Seq, Debt: 1}})
			}
			return as, err
		}
	}},
	{check: "ReturnedPermitsAreGrantedAgain", what: "keeps them", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Returned = 0 }
	}},
	{check: "NobodyReturnsWhatHeDoesNotHave", what: "knows no nodes", breaks: func(b *broken) {
		next := seqs()
		b.before = func(n *store.Node, it *store.Item) { *n = "all"; next(n, it) }
	}},
	{check: "DebtIsCharged", what: "forgives it", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Debt = 0 }
	}},
	{check: "ALoweredLimitCountsAtOnce", what: "keeps the first limits", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Version = 1 }
	}},
	{check: "ARaisedLimitCountsLater", what: "raises at once", breaks: raisesAtOnce},
	{check: "ARaisedLimitCountsLater", what: "never raises", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Version = 1 }
	}},
	{check: "AChangedBucketKeepsItsQuota", what: "begins full", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Key = store.KeyFor(it.Key, fmt.Sprint(it.Version)) }
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.Key = it.Key }
	}},
	{check: "AChangedBucketKeepsItsQuota", what: "has leases that outlive a change", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) {
			if it.Version == 1 {
				a.ValidFor = max(a.ValidFor, time.Second)
			}
		}
	}},
	{check: "ChangesOfABucketDoNotAddUp", what: "counts what was taken at each pace", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.RetryAfter <<= it.Version }
	}},
	{check: "AnotherShapeOfLimitsBeginsEmpty", what: "begins full", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) {
			it.Key = store.KeyFor(it.Key, fmt.Sprint(it.Version))
		}
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.Key = it.Key }
	}},
	{check: "AnotherShapeOfLimitsBeginsEmpty", what: "forgets what it lent", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) {
			if it.Version == 1 {
				a.ValidFor += 2 * time.Second
			}
		}
	}},
	{check: "AnOlderVersionIsTold", what: "says nothing", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.Limits = nil }
	}},
	{check: "AnOlderVersionIsTold", what: "goes by whatever came last", breaks: func(b *broken) {
		next := seqs()
		b.before = func(_ *store.Node, it *store.Item) {
			n := store.Node("v")
			version := store.Item{Key: it.Key, Seq: 1}
			next(&n, &version)
			it.Version = 10 + version.Seq
		}
	}},
	{check: "EqualNodesGetEqualShares", what: "gives all to who comes first", breaks: func(b *broken) {
		next := seqs()
		b.before = func(n *store.Node, it *store.Item) { *n = "all"; next(n, it) }
	}},
	{check: "ManyAtOnceGetNoMore", what: "grants one for nothing", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.Granted += min(1, a.Granted) }
	}},
	{check: "CostlyCallsOfABucketHaveTurns", what: "serves whoever comes first", breaks: func(b *broken) {
		b.before = func(n *store.Node, it *store.Item) {
			if it.Least > 1 {
				*n = store.NewNode() // nobody was told to come again
			}
		}
	}},
	{check: "WhoComesEarlyKeepsItsPlace", what: "forgets who comes", breaks: func(b *broken) {
		b.exchange = func(m *store.Memory, ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
			var all []store.Item
			for _, it := range items {
				bye := store.Item{Key: it.Key, Seq: 2*it.Seq - 1, Bye: true}
				it.Seq *= 2
				all = append(all, bye, it)
			}
			answers, err := m.Exchange(ctx, node, all)
			if err != nil {
				return nil, err
			}
			for i := range items {
				answers[i] = answers[2*i+1]
				answers[i].Seq = items[i].Seq
			}
			return answers[:len(items)], nil
		}
	}},
	{check: "ATurnHarmsNobody", what: "has others wait for what is not to be had", breaks: func(b *broken) {
		refused := map[string]int{}
		b.after = func(_ store.Node, it store.Item, a *store.Answer) {
			if it.Least > 1 && a.Granted == 0 {
				refused[it.Key]++
			}
			if it.Least <= 1 && refused[it.Key] > 1 {
				a.Granted = 0
			}
		}
	}},
	{check: "ACooldownIsOnlyExtended", what: "overwrites", breaks: func(b *broken) {
		b.exchange = func(m *store.Memory, ctx context.Context, n store.Node, items []store.Item) ([]store.Answer, error) {
			if len(items[0].Cool) > 0 {
				m.Exchange(ctx, "clear", []store.Item{{Key: items[0].Key, Seq: items[0].Seq + uint64(time.Now().UnixNano()), Clear: []store.Cleared{{Gen: math.MaxUint64}}}})
			}
			return m.Exchange(ctx, n, items)
		}
	}},
	{check: "ACooldownIsOnlyExtended", what: "adds up", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) {
			it.Cool = append([]store.Cool(nil), it.Cool...)
			for i := range it.Cool {
				it.Cool[i].For += 10 * time.Minute
			}
		}
	}},
	{check: "ACooldownIsToldOnce", what: "tells again and again", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Seen = 0 }
	}},
	{check: "ACooldownIsToldOnce", what: "tells nobody", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) {
			if len(it.Cool) == 0 {
				a.Cooldowns = nil
			}
		}
	}},
	{check: "NothingIsGrantedInACooldown", what: "grants all the same", breaks: coolsElsewhere},
	{check: "AScopesCooldownStopsNoOther", what: "cools the whole key", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) {
			for i := range it.Cool {
				it.Cool[i].Scope = ""
			}
		}
	}},
	{check: "ScopesAreBounded", what: "keeps the first", breaks: func(b *broken) {
		told := 0
		b.before = func(_ *store.Node, it *store.Item) {
			if told += len(it.Cool); told > store.MaxScopes {
				it.Cool = nil
			}
		}
	}},
	{check: "AScopeMayBeAnyBytes", what: "ends it with a NUL", breaks: func(b *broken) {
		b.after = func(_ store.Node, _ store.Item, a *store.Answer) {
			a.Cooldowns = slices.Clone(a.Cooldowns)
			for i := range a.Cooldowns {
				a.Cooldowns[i].Scope, _, _ = strings.Cut(a.Cooldowns[i].Scope, "\x00")
			}
		}
	}},
	{check: "ClearEndsACooldown", what: "lets them go on", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Clear = nil }
	}},
	{check: "ClearLeavesWhatIsNewer", what: "ends all", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) {
			it.Clear = slices.Clone(it.Clear)
			for i := range it.Clear {
				it.Clear[i].Gen = math.MaxUint64
			}
		}
	}},
	{check: "ClearLeavesWhatIsNewer", what: "hides what is shorter", breaks: func(b *broken) {
		b.exchange = func(m *store.Memory, ctx context.Context, n store.Node, items []store.Item) ([]store.Answer, error) {
			if len(items[0].Cool) > 0 {
				as, err := m.Exchange(ctx, store.NewNode(), []store.Item{{Key: items[0].Key, Seq: 1, Bye: true}})
				if err != nil {
					return nil, err
				}
				items = slices.Clone(items)
				items[0].Cool = slices.DeleteFunc(slices.Clone(items[0].Cool), func(k store.Cool) bool {
					return slices.ContainsFunc(as[0].Cooldowns, func(c store.Cooldown) bool { return c.Scope == k.Scope && c.Left > k.For })
				})
			}
			return m.Exchange(ctx, n, items)
		}
	}},
	{check: "ClearLeavesWhatIsNewer", what: "goes by no epoch", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) {
			if len(it.Clear) > 0 {
				it.Epoch = ""
			}
		}
	}},
	{check: "KnownBringsBackLostCooldowns", what: "believes nobody", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Known = nil }
	}},
	{check: "KnownBringsBackLostCooldowns", what: "believes everybody", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) {
			for _, k := range it.Known {
				it.Cool = append(it.Cool, store.Cool{Scope: k.Scope, For: k.Left})
			}
		}
	}},
	{check: "WhatIsBroughtBackIsToldToAll", what: "gives it a Gen that there was", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) {
			if it.Seen > 0 {
				it.Seen++
			}
		}
	}},
	{check: "OneNodeProbes", what: "has no probe", breaks: coolsElsewhere},
	{check: "OneNodeProbes", what: "lets all probe", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) {
			if a.Probe == store.ProbeOther {
				a.Probe, a.Granted = store.ProbeYours, 1
			}
		}
	}},
	{check: "AProbeThatIsGoneIsFreed", what: "keeps what silent nodes have", breaks: keepsTheDead},
	{check: "SlotsAreNeverMoreThanTheyAre", what: "has one more", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Slots += min(1, it.Slots) }
	}},
	{check: "SlotsOfTheDeadComeBack", what: "keeps them", breaks: keepsTheDead},
	{check: "SlotsOfTheDeadComeBack", what: "gives them away too soon", breaks: func(b *broken) {
		b.Memory, _ = store.NewMemory(store.MemoryConfig{TTL: 5 * time.Second})
	}},
	{check: "SlotsAreNotClaimed", what: "believes what nodes hold", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.Held = max(a.Held, it.Held) }
	}},
	{check: "SlotsAreAskedBack", what: "lets who has them keep them", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.Held = max(a.Held, it.Held) }
	}},
	{check: "SlotsAreAskedBackOfTheContent", what: "lets who has them keep them", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.Held = max(a.Held, it.Held) }
	}},
	{check: "SlotsGoByTheRules", what: "does not know what is of use", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.LeastSlots = 0 }
	}},
	{check: "CallsStandInLineForSlots", what: "knows no line", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Line = store.LineNothing }
	}},
	{check: "CallsStandInLineForSlots", what: "does not know what is of use", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.LeastSlots = 0 }
	}},
	{check: "SlotsAreKeptForTheFirstInLine", what: "knows no line", breaks: func(b *broken) {
		b.before = func(_ *store.Node, it *store.Item) { it.Line = store.LineNothing }
	}},
	{check: "SlotsAreKeptForTheFirstInLine", what: "asks nothing back", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.Held = max(a.Held, it.Held) }
	}},
	{check: "SlotsAreKeptForTheFirstInLine", what: "keeps the dead in line", breaks: keepsTheDead},
	{check: "LostStateGrantsNothingTwice", what: "takes what is absent for unused", lose: func(b *broken) {
		b.Memory, _ = store.NewMemory(store.MemoryConfig{})
	}},
	{check: "LostStateGrantsNothingTwice", what: "keeps its epoch", breaks: func(b *broken) {
		b.after = func(_ store.Node, it store.Item, a *store.Answer) { a.Epoch = "1" }
	}},
	{check: "LostStateBelievesSlots", what: "takes what is absent for unused", lose: func(b *broken) {
		b.Memory, _ = store.NewMemory(store.MemoryConfig{})
	}},
	{check: "MetaComparesAndSets", what: "sets", breaks: setsOnly},
	{check: "MetaComparesAndSets", what: "counts versions by key", breaks: func(b *broken) {
		b.meta = func(m *store.Memory, ctx context.Context, op store.MetaOp) ([]store.Record, error) {
			rs, err := m.Meta(ctx, op)
			if len(rs) == 1 && op.Do == store.Put && op.Version == 0 {
				rs[0].Version = 1
			}
			return rs, err
		}
	}},
	{check: "MetaIsListed", what: "lists all", breaks: func(b *broken) {
		b.meta = func(m *store.Memory, ctx context.Context, op store.MetaOp) ([]store.Record, error) {
			op.Limit = 0
			return m.Meta(ctx, op)
		}
	}},
	{check: "MetaRefusesNonsense", what: "takes everything", breaks: func(b *broken) {
		b.meta = func(m *store.Memory, ctx context.Context, op store.MetaOp) ([]store.Record, error) {
			if !json.Valid(op.Value) {
				op.Value = json.RawMessage("{}")
			}
			return m.Meta(ctx, op)
		}
	}},
	{check: "MetaIsChangedByOneOfMany", what: "sets", breaks: setsOnly},
	{check: "HintsTellOfCooldowns", what: "has none", breaks: func(b *broken) {
		b.watch = func(m *store.Memory, hint func(store.Hint)) (func(), error) { return func() {}, nil }
	}},
	{check: "HintsTellOfCooldowns", what: "does not stop", breaks: func(b *broken) {
		b.watch = func(m *store.Memory, hint func(store.Hint)) (func(), error) {
			_, err := m.Watch(context.Background(), hint)
			return func() {}, err
		}
	}},
	{check: "HintsSayWhatAnswersSay", what: "counts on", breaks: func(b *broken) {
		b.watch = func(m *store.Memory, hint func(store.Hint)) (func(), error) {
			return m.Watch(context.Background(), func(h store.Hint) {
				h.Cooldowns = slices.Clone(h.Cooldowns)
				for i := range h.Cooldowns {
					h.Cooldowns[i].Gen++
				}
				hint(h)
			})
		}
	}},
	{check: "WhatIsHeardUntilIsHeard", what: "misses one", breaks: func(b *broken) {
		b.watch = func(m *store.Memory, hint func(store.Hint)) (func(), error) {
			n := 0
			return m.Watch(context.Background(), func(h store.Hint) {
				if n++; n != 3 {
					hint(h)
				}
			})
		}
	}},
	{check: "WhatIsClosedIsClosed", what: "goes on", breaks: func(b *broken) { b.open = true }},
}

// raisesAtOnce is told of each version as of other limits that begin with what was
// taken, and no more.
func raisesAtOnce(b *broken) {
	extra := map[string]bool{}
	b.after = func(_ store.Node, it store.Item, a *store.Answer) {
		if it.Version == 2 && !extra[it.Key] {
			extra[it.Key] = true
			a.Granted += 5
		}
	}
}

// coolsElsewhere keeps the cooldowns of the whole key where nobody looks.
func coolsElsewhere(b *broken) {
	b.before = func(_ *store.Node, it *store.Item) {
		for i := range it.Cool {
			it.Cool[i].Scope = "elsewhere"
		}
	}
}

// keepsTheDead has every node that was ever there say that it lives.
func keepsTheDead(b *broken) {
	b.Memory, _ = store.NewMemory(store.MemoryConfig{TTL: time.Hour})
	b.after = func(_ store.Node, _ store.Item, a *store.Answer) {
		a.SlotsFor, a.ProbeFor = min(a.SlotsFor, 10*time.Second), min(a.ProbeFor, 10*time.Second)
	}
}

func (b *broken) TTL() time.Duration { return 10 * time.Second }

func setsOnly(b *broken) {
	b.meta = func(m *store.Memory, ctx context.Context, op store.MetaOp) ([]store.Record, error) {
		if rs, _ := m.Meta(ctx, store.MetaOp{Key: op.Key}); len(rs) == 1 && op.Do != store.List {
			op.Version = rs[0].Version
		}
		return m.Meta(ctx, op)
	}
}

func TestEveryCheckCatchesABrokenEngine(t *testing.T) {
	caught := map[string]bool{}
	for _, control := range controls {
		caught[control.check] = true
		t.Run(control.check+"/"+strings.ReplaceAll(control.what, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := store.NewMemory(store.MemoryConfig{})
				if err != nil {
					t.Fatal(err)
				}
				b := &broken{Memory: m}
				if control.breaks != nil {
					control.breaks(b)
				}
				lose := func() { b.Lose() }
				if control.lose != nil {
					lose = func() { control.lose(b) }
				}
				said := watchCheck(t, control.check, Engine{b, lose})
				if len(said) == 0 {
					t.Errorf("an engine that %s passes", control.what)
				} else {
					t.Logf("%.200s", said[0])
				}
			})
		})
	}
	for _, c := range checks {
		if !caught[c.name] {
			t.Errorf("no broken engine is caught by %s", c.name)
		}
	}
}

// watchCheck runs a check and returns what it complains of.
func watchCheck(t *testing.T, name string, e Engine) []string {
	r := &record{ctx: t.Context()}
	for _, c := range checks {
		if c.name == name {
			func() {
				defer func() {
					if p := recover(); p != nil && p != any(r) {
						panic(p)
					}
				}()
				c.run(newCheck(r, Config{New: func(TB) Engine { return e }}))
			}()
			return r.said
		}
	}
	t.Fatalf("no check is called %s", name)
	return nil
}

// record is a test that notes what a check says.
type record struct {
	ctx  context.Context
	mu   sync.Mutex
	said []string // guarded by mu
}

func (r *record) Helper()                  {}
func (r *record) Skip(...any)              { panic(r) }
func (r *record) Context() context.Context { return r.ctx }

func (r *record) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *record) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r) // the check is over
}

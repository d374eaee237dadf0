// Package storetest is the conformance suite for engines of package store: what
// the contract of store.Store says, sentence by sentence, as checks.
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Config{New: func(t storetest.TB) storetest.Engine {
//			return storetest.Engine{Store: connect(t), Lose: flush}
//		}})
//	}
//
// It also has the judge of what nodes did together: a [History] of uses, which finds
// the window that holds too many.
//
// It says nothing of how fast an engine is, nor of what it does when its server
// fails in its own way: that is for the engine's own tests.
package storetest

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
)

// Engine is an engine under test.
type Engine struct {
	Store store.Store

	// Lose makes the engine forget everything but metadata, as a restart, a
	// failover or an emptied database would. nil: it cannot, and the checks of that
	// are skipped.
	Lose func()
}

// Config says what to test, and how.
type Config struct {
	// New returns an engine in which nobody has done anything under the keys that
	// a check uses, which are random. What it opens it closes by t.Cleanup, but
	// not in a Bubble.
	New func(t TB) Engine

	// Bubble runs each check in a synctest bubble: for engines without a server.
	// The others take as long as their TTL and the windows of the checks, some
	// seconds each.
	Bubble bool
}

// TB is what a check needs of a test.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
	Context() context.Context
}

// Run runs all checks, each as a test of its own.
func Run(t *testing.T, cfg Config) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			if cfg.Bubble {
				synctest.Test(t, func(t *testing.T) { c.run(newCheck(t, cfg)) })
				return
			}
			if !strings.Contains(c.name, "Lost") { // not beside one that makes the engine lose its state
				t.Parallel()
			}
			c.run(newCheck(t, cfg))
		})
	}
}

// checks are all checks, by their names.
var checks = []struct {
	name string
	run  func(*check)
}{
	{"AnswersNameTheirRequests", answersNameTheirRequests},
	{"ARepeatedRequestIsExecutedOnce", repeatedOnce},
	{"ARepeatedRequestHasWhatIsLeft", repeatedShorter},
	{"AnOlderRequestIsStale", olderIsStale},
	{"NonsenseIsInvalidAndNotExecuted", nonsense},
	{"AnEndedContextIsNotExecuted", endedContext},
	{"WantBoundsTheGrant", wantBounds},
	{"LeastIsGrantedOrNothing", leastOrNothing},
	{"NoWindowHoldsMoreThanTheQuota", noWindowHoldsMore},
	{"ABucketSpreads", bucketSpreads},
	{"AllLimitsOrNone", allOrNone},
	{"ReturnedPermitsAreGrantedAgain", returnedAgain},
	{"NobodyReturnsWhatHeDoesNotHave", returnedOnlyOwn},
	{"DebtIsCharged", debtIsCharged},
	{"ALoweredLimitCountsAtOnce", lowered},
	{"ARaisedLimitCountsLater", raised},
	{"AChangedBucketKeepsItsQuota", changedBucket},
	{"ChangesOfABucketDoNotAddUp", changesDoNotAddUp},
	{"AnotherShapeOfLimitsBeginsEmpty", reshaped},
	{"AnOlderVersionIsTold", olderVersion},
	{"EqualNodesGetEqualShares", equalShares},
	{"ManyAtOnceGetNoMore", manyAtOnce},
	{"CostlyCallsOfABucketHaveTurns", costlyTurns},
	{"ATurnHarmsNobody", turnsHarmNobody},
	{"WhoComesEarlyKeepsItsPlace", placesAreKept},
	{"ACooldownIsOnlyExtended", onlyExtended},
	{"ACooldownIsToldOnce", toldOnce},
	{"NothingIsGrantedInACooldown", nothingGranted},
	{"AScopesCooldownStopsNoOther", scopeAlone},
	{"ScopesAreBounded", scopesBounded},
	{"ClearEndsACooldown", clearEnds},
	{"ClearLeavesWhatIsNewer", clearLeavesNewer},
	{"KnownBringsBackLostCooldowns", knownBringsBack},
	{"WhatIsBroughtBackIsToldToAll", broughtBackIsTold},
	{"OneNodeProbes", oneProbes},
	{"AProbeThatIsGoneIsFreed", lostProbe},
	{"AScopeMayBeAnyBytes", anyScope},
	{"SlotsAreNeverMoreThanTheyAre", slotsBounded},
	{"SlotsOfTheDeadComeBack", slotsComeBack},
	{"SlotsAreNotClaimed", slotsNotClaimed},
	{"SlotsAreAskedBack", slotsAskedBack},
	{"SlotsAreAskedBackOfTheContent", slotsOfTheContent},
	{"SlotsGoByTheRules", slotsByTheRules},
	{"CallsStandInLineForSlots", slotsInLine},
	{"SlotsAreKeptForTheFirstInLine", slotsOfTheFirstInLine},
	{"LostStateGrantsNothingTwice", lostGrants},
	{"LostStateBelievesSlots", lostSlots},
	{"MetaComparesAndSets", metaCompares},
	{"MetaIsListed", metaListed},
	{"MetaRefusesNonsense", metaNonsense},
	{"MetaIsChangedByOneOfMany", metaRace},
	{"HintsTellOfCooldowns", hints},
	{"HintsSayWhatAnswersSay", words},
	{"WhatIsHeardUntilIsHeard", heardUntil},
	{"WhatIsClosedIsClosed", closedIs},
}

// check is one check under way: the engine, and the nodes' numbers.
type check struct {
	TB
	Engine
	key   string
	start time.Time
	seqs  map[string]uint64
}

func newCheck(t TB, cfg Config) *check {
	return &check{TB: t, Engine: cfg.New(t), key: newKey(), start: time.Now(), seqs: make(map[string]uint64)}
}

func newKey() string { return store.KeyFor("storetest", string(store.NewNode())) }

// next is it with its key and the node's next number.
func (c *check) next(node store.Node, it store.Item) store.Item {
	if it.Key == "" {
		it.Key = c.key
	}
	id := string(node) + " " + it.Key
	c.seqs[id]++
	it.Seq = c.seqs[id]
	return it
}

// ask exchanges one item.
func (c *check) ask(node store.Node, it store.Item) store.Answer {
	c.Helper()
	return c.repeat(node, c.next(node, it))
}

// repeat exchanges an item that has its number.
func (c *check) repeat(node store.Node, it store.Item) store.Answer {
	c.Helper()
	as, err := c.Store.Exchange(c.Context(), node, []store.Item{it})
	if err != nil {
		c.Fatalf("Exchange: %v", err)
	}
	if len(as) != 1 {
		c.Fatalf("%d answers to one item", len(as))
	}
	if as[0].Err != nil {
		c.Fatalf("Exchange: %v", as[0].Err)
	}
	return as[0]
}

// limited is an item that wants permits of limits.
func limited(want int64, limits ...store.Limit) store.Item {
	return store.Item{Limits: limits, Version: 1, Want: want}
}

// nodes returns n names.
func nodes(n int) (all []store.Node) {
	for range n {
		all = append(all, store.NewNode())
	}
	return all
}

// drain has nodes take turns until none gets anything, and returns how much they
// got. One that is to come again in a moment does.
func (c *check) drain(it store.Item, nodes ...store.Node) (sum int64) {
	c.Helper()
	return c.drainBy(time.Now().Add(time.Hour), it, nodes...)
}

// drainBy is drain, as far as it comes by end.
func (c *check) drainBy(end time.Time, it store.Item, nodes ...store.Node) (sum int64) {
	c.Helper()
	for idle := 0; idle < 8*len(nodes) && time.Now().Before(end); {
		for _, n := range nodes {
			a := c.ask(n, it)
			if idle++; a.Granted > 0 {
				idle = 0
			} else if a.RetryAfter < 10*time.Millisecond {
				time.Sleep(a.RetryAfter)
			}
			sum += a.Granted
		}
	}
	return sum
}

// next waits for the next window of per, and returns a time shortly before its end.
func next(per time.Duration) (end time.Time) {
	time.Sleep(per - time.Duration(time.Now().UnixNano())%per + per/50)
	now := time.Now()
	return now.Add(per - time.Duration(now.UnixNano())%per - per/10)
}

// long is a limit of a window that does not end while a check runs, however slow the
// machine is.
func long(quota int64) store.Limit {
	l := store.Limit{Kind: store.Window, Quota: quota, Per: time.Hour}
	for time.Duration(time.Now().UnixNano())%l.Per > l.Per-10*time.Minute {
		l.Per += 13 * time.Minute
	}
	return l
}

func pick(n int) int { return rand.IntN(n) }

package storetest

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
)

func memory(t TB) Engine {
	m, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return Engine{m, m.Lose}
}

func TestMemoryConforms(t *testing.T) {
	Run(t, Config{New: memory, Bubble: true})
}

// An engine on a machine that is busy with something else is slow, and no worse for it.
func TestASlowEngineConforms(t *testing.T) {
	for _, check := range []string{"NoWindowHoldsMoreThanTheQuota", "ARaisedLimitCountsLater"} {
		for _, took := range []time.Duration{5 * time.Millisecond, 15 * time.Millisecond, 60 * time.Millisecond, 120 * time.Millisecond} {
			t.Run(check+"/"+took.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &broken{Memory: memory(t).Store.(*store.Memory)}
					b.after = func(store.Node, store.Item, *store.Answer) { time.Sleep(took) }
					if said := watchCheck(t, check, Engine{Store: b}); len(said) > 0 {
						t.Errorf("it is said that %.300q", said)
					}
				})
			})
		}
	}
}

// Outside a bubble, as servers are tested: with a clock that nobody stops.
func TestSoakMemoryConformsInRealTime(t *testing.T) {
	if os.Getenv("FLYBALL_SOAK") == "" {
		t.Skip("takes half a minute; set FLYBALL_SOAK to run it")
	}
	Run(t, Config{New: func(t TB) Engine {
		m, err := store.NewMemory(store.MemoryConfig{TTL: 2 * time.Second})
		if err != nil {
			t.Fatalf("%v", err)
		}
		return Engine{m, m.Lose}
	}})
}

package storetest

import (
	"os"
	"testing"
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

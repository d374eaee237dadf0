package clustertest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/faultproxy"
	"github.com/flyball-go/flyball/internal/judge"
)

// soakResult is what a soak writes into the file that FLYBALL_CLUSTER_JSON names.
type soakResult struct {
	Store    string         `json:"store"`
	Seconds  float64        `json:"seconds"`
	Faults   map[string]int `json:"faults"`
	Calls    int64          `json:"calls"`
	Late     int            `json:"late"`    // calls that took longer than 200 ms to the vendor
	Slowest  float64        `json:"slowest"` // seconds until all replicas made calls again, after a fault
	Replicas int            `json:"replicas"`
	Errors   []string       `json:"errors"` // what was broken; none, if all is well
	Vendor   judge.Tally    `json:"vendor"`
}

// TestSoak has four replicas share a quota for FLYBALL_CLUSTER_SOAK, 10s by default,
// with a fault every two seconds or so: after each, all of them have to make calls
// again.
func TestSoak(t *testing.T) {
	length := 10 * time.Second
	if said := os.Getenv("FLYBALL_CLUSTER_SOAK"); said != "" {
		var err error
		if length, err = time.ParseDuration(said); err != nil {
			t.Fatalf("FLYBALL_CLUSTER_SOAK: %v", err)
		}
	}
	results := make([]*soakResult, 2)
	t.Run("both", func(t *testing.T) {
		for i, kind := range []string{"redis", "mysql"} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				results[i] = soak(t, kind, length)
				for _, e := range results[i].Errors {
					t.Error(e)
				}
			})
		}
	})
	if name := os.Getenv("FLYBALL_CLUSTER_JSON"); name != "" {
		text, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(name, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func soak(t *testing.T, kind string, length time.Duration) *soakResult {
	result := &soakResult{Store: kind, Faults: make(map[string]int), Errors: []string{}}
	c := begin(t, ownServer(t, kind), 4, replica{Limit: window(), Every: 32 * time.Millisecond, Cancel: true}, nil,
		judge.Config{MaxPause: 2 * time.Second}) // each call until all know of it doubles it
	faults := soakFaults(c)
	stuck := c.allCall()
	start := time.Now()
	for stuck == nil && time.Since(start) < length {
		f := faults[rand.IntN(len(faults))]
		if f.only != "" && f.only != kind {
			continue
		}
		result.Faults[f.name]++
		f.do(c.members[rand.IntN(len(c.members))])
		over := time.Now()
		if stuck = c.allCall(); stuck != nil {
			stuck = fmt.Errorf("after %q: %w", f.name, stuck)
		}
		result.Slowest = max(result.Slowest, time.Since(over).Seconds())
		time.Sleep(rand.N(2 * time.Second))
	}
	h, err := c.end()
	if h == nil {
		t.Fatal(err)
	}
	l := allowed(window())
	wrong := []error{stuck, err, h.Windows(l, transit), h.Grants(l), h.Pauses(50 * time.Millisecond), h.Ledger(c.alive()...)}
	result.Seconds = time.Since(start).Seconds()
	result.Calls, result.Late, result.Replicas, result.Vendor = h.Arrived("", 0, 1<<62), h.Late(transit), c.born, c.vendor.Tally()
	for _, err := range wrong {
		if err != nil {
			result.Errors = append(result.Errors, err.Error())
		}
	}
	t.Logf("%+v", *result)
	return result
}

type soakFault struct {
	name string
	only string
	do   func(m *member)
}

func soakFaults(c *cluster) []soakFault {
	cut := func(f faultproxy.Fault) func(*member) {
		return func(m *member) {
			m.proxy.Set(f)
			time.Sleep(rand.N(800 * time.Millisecond))
			m.proxy.Set(faultproxy.Fault{})
			m.proxy.Cut()
		}
	}
	redis := func(args ...string) func(*member) {
		return func(*member) { c.server.redis.Must(args...) }
	}
	return []soakFault{
		{name: "delay", do: cut(faultproxy.Fault{Delay: 30 * time.Millisecond, Jitter: 50 * time.Millisecond})},
		{name: "swallowed answers", do: cut(faultproxy.Fault{DropAnswers: true})},
		{name: "lost requests", do: cut(faultproxy.Fault{DropRequests: true})},
		{name: "cut answers", do: cut(faultproxy.Fault{CutAfter: 1000})},
		{name: "refused connections", do: cut(faultproxy.Fault{Refuse: true})},
		{name: "reset", do: func(m *member) { m.proxy.Reset() }},
		{name: "cut off, all", do: func(*member) {
			c.fault(faultproxy.Fault{DropRequests: true})
			time.Sleep(rand.N(per))
			c.fault(faultproxy.Fault{})
			c.cut()
		}},
		{name: "stop", do: func(m *member) {
			m.signal(syscall.SIGSTOP)
			time.Sleep(rand.N(2 * per))
			m.signal(syscall.SIGCONT)
		}},
		{name: "kill", do: func(m *member) {
			for i := range c.members {
				if c.members[i] == m {
					c.replace(i)
				}
			}
		}},
		{name: "restart", do: func(*member) { c.server.restart() }},
		{name: "pause", do: func(*member) { c.vendor.Pause(500 * time.Millisecond) }},
		{name: "flush", only: "redis", do: redis("FLUSHALL")},
		{name: "script flush", only: "redis", do: redis("SCRIPT", "FLUSH")},
	}
}

package clustertest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
)

// callsSlot is the slot of a Cluster that the limit is in, and the primary that has it,
// of those that there are.
func (s *server) callsSlot() (slot string, primary *servers.RedisServer, all []*servers.RedisServer) {
	slot = s.cluster[0].Must("CLUSTER", "KEYSLOT", "gov:{"+new(job).key()+"}")
	for _, r := range s.cluster {
		if !strings.HasPrefix(r.Must("ROLE"), "master") {
			continue
		}
		all = append(all, r)
		if n, _ := strconv.Atoi(r.Must("CLUSTER", "COUNTKEYSINSLOT", slot)); n > 0 {
			primary = r
		}
	}
	return slot, primary, all
}

// move brings a slot from a primary to another, as redis-cli does: key by key, so that
// there is a time at which all of it, a part of it and none of it is there. Without
// withKeys they are lost, and somebody says at once that nothing was used.
func (s *server) move(slot string, from, to *servers.RedisServer, withKeys bool) error {
	const pause = 150 * time.Millisecond // the replicas ask meanwhile
	fromID, toID := from.Must("CLUSTER", "MYID"), to.Must("CLUSTER", "MYID")
	to.Must("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Must("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	keys := strings.Fields(from.Must("CLUSTER", "GETKEYSINSLOT", slot, "100"))
	if len(keys) < 2 {
		return fmt.Errorf("%w: slot %s has the keys %q, want a hash and a witness", errUntested, slot, keys)
	}
	for _, key := range keys {
		if !withKeys {
			from.Must("DEL", key)
			continue
		}
		time.Sleep(pause)
		from.Must("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), key, "0", "5000", "REPLACE")
	}
	if withKeys {
		time.Sleep(pause)
	}
	for _, r := range []*servers.RedisServer{to, from} {
		r.Must("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	if withKeys {
		return nil
	}
	unused, err := os.ReadFile("../redisstore/witness.lua") // as AssumeUnused, which does so for all slots, one by one
	for _, key := range keys {
		if strings.HasPrefix(key, "gov:{.w") {
			to.Must("EVAL", string(unused), "1", key)
		}
	}
	return err
}

// slotThatMoves has the limit's slot of a Cluster move to another primary, and back.
func slotThatMoves() scenario {
	moves := func(c *cluster, move func(slot string, from, to *servers.RedisServer) error) error {
		return c.lose(func() error {
			slot, from, all := c.server.callsSlot()
			if from == nil {
				return fmt.Errorf("%w: no primary has the limit", errUntested)
			}
			to := all[0]
			if from == to {
				to = all[1]
			}
			return move(slot, from, to)
		})
	}
	return scenario{
		name: "a slot that moves", only: "cluster", template: replica{job: steady(window()), Bound: time.Second}, timeout: time.Minute, // no node is to replace another
		rounds: 2,
		round: func(c *cluster) error {
			return moves(c, func(slot string, from, to *servers.RedisServer) error {
				return c.server.move(slot, from, to, true)
			})
		},
		after: (*cluster).goesOn,
		controls: []control{{name: "without what was there", breaks: func(s *scenario) {
			s.round = func(c *cluster) error {
				return moves(c, func(slot string, from, to *servers.RedisServer) error {
					for _, m := range c.members { // nobody is to come before it is said to be unused
						m.stop()
						defer m.signal(syscall.SIGCONT)
					}
					return c.server.move(slot, from, to, false)
				})
			}
		}}},
	}
}

// primaryThatDies has the primary die that has the limit. Its replica takes over. What is
// lost then, and that it counts, redisstore's own test of a failover controls.
func primaryThatDies() scenario {
	const timeout = 4 * time.Second // in which nodes that only stall are not replaced
	return scenario{
		name: "a primary that dies", only: "cluster", timeout: timeout,
		template: replica{job: job{Limit: window(), Every: 16 * time.Millisecond}, Bound: timeout},
		round: func(c *cluster) error {
			_, primary, before := c.server.callsSlot()
			if primary == nil {
				return fmt.Errorf("%w: no primary has the limit", errUntested)
			}
			within(0.4, 0.6)
			primary.Kill()
			return await("another takes over", func() bool {
				for _, r := range c.server.cluster {
					role, err := r.Do("ROLE")
					if err == nil && strings.HasPrefix(role, "master") && !slices.Contains(before, r) {
						return true
					}
				}
				return false
			})
		},
		after: (*cluster).goesOn,
	}
}

package redisstore

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
)

// A primary of a Cluster dies whose replica has not heard of the last grants. The
// replica takes over by itself; in no window is there more than the quota, and there
// are grants again without anybody's help.
func TestFailoverOfACluster(t *testing.T) {
	t.Parallel()
	nodes := servers.Cluster(t, time.Minute)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	// Nobody is missed but who is dead, however slow the machine.
	impatient := func(timeout time.Duration) {
		for _, n := range nodes {
			if !n.Ended() {
				n.Must("CONFIG", "SET", "cluster-node-timeout", strconv.FormatInt(timeout.Milliseconds(), 10))
			}
		}
	}
	for shard, broken := range []bool{false, true} { // each kills the primary of a shard of its own
		t.Run("control "+strconv.FormatBool(broken), func(t *testing.T) {
			key := keyIn(shard)
			s := open(t, Config{Addrs: addrs, Cluster: true, SplitBrainBound: time.Second})
			if err := s.AssumeUnused(t.Context()); err != nil {
				t.Fatal(err)
			}
			if broken {
				believesAll(t, s)
			}
			long, short := newAsker(t, s, key, hourly(100)), newAsker(t, s, sameSlot(key), store.Limit{Quota: 10, Per: 200 * time.Millisecond})
			long.ask(1)
			short.ask(1)
			primary, replica := nodes[shard], nodes[shard+3]
			await(t, func() bool {
				v, err := replica.Do("HGET", hashOf(key), "t") // MOVED: it has the slot, and knows who serves it
				return err != nil && v == "" && replica.Must("DBSIZE") == primary.Must("DBSIZE")
			})
			replica.Must("CONFIG", "SET", "masterauth", "wrong")
			replica.Must("CLIENT", "KILL", "TYPE", "master")
			await(t, func() bool { return strings.Contains(replica.Must("INFO", "replication"), "link_status:down") })
			before := 1 + long.drain()
			primary.Kill()
			impatient(time.Second)
			died := time.Now()
			for {
				if _, err := short.sendOne(0); err == nil {
					break
				}
				if time.Since(died) > time.Minute {
					t.Fatalf("no replica takes over:\n%s\n%s", replica.Must("CLUSTER", "NODES"), replica.Log())
				}
				time.Sleep(20 * time.Millisecond)
			}
			impatient(time.Minute)
			over := time.Since(died)
			for short.ask(1).Granted == 0 {
				if time.Since(died) > over+s.bound+30*time.Second {
					t.Fatal("nothing is granted after the failover")
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Logf("another primary after %v, grants after %v", over, time.Since(died))
			sum := before + long.drain()
			if before != 100 || (sum > 100) != broken {
				t.Errorf("%d granted before the failover, %d together, of 100", before, sum)
			}
			if other := newAsker(t, s, "", hourly(10)); !broken {
				other.key = keyIn((shard + 2) % 3) // what another shard has is as before
				if nodes[(shard+2)%3].Must("ROLE")[:6] != "master" {
					t.Log("the machine has stalled: another shard has had a failover, too")
				} else if got := other.drain(); got != 10 {
					t.Errorf("another shard grants %d of 10", got)
				}
			}
		})
	}
}

// keyIn is a key of a shard of three.
func keyIn(shard int) string {
	for i := 0; ; i++ {
		if k := "k" + strconv.Itoa(i); slotOf(k)*3/slots == shard {
			return k
		}
	}
}

// sameSlot is another key in the slot of key.
func sameSlot(key string) string {
	for i := 0; ; i++ {
		if k := "x" + strconv.Itoa(i); slotOf(k) == slotOf(key) {
			return k
		}
	}
}

// The primary dies that sentinels watch, and its replica has not heard of the last grants.
func TestFailoverBySentinels(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		t.Run("control "+strconv.FormatBool(broken), func(t *testing.T) {
			t.Parallel()
			failoverBySentinels(t, broken)
		})
	}
}

func failoverBySentinels(t *testing.T, broken bool) {
	primary := servers.Redis(t)
	replica := servers.Replica(t, primary)
	var addrs []string
	sentinels := servers.Sentinels(t, "main", primary, 1, time.Minute)
	for _, s := range sentinels {
		addrs = append(addrs, s.Addr)
	}
	s := open(t, Config{Addrs: addrs, Master: "main", SplitBrainBound: 500 * time.Millisecond})
	if err := s.AssumeUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	if broken {
		believesAll(t, s)
	}
	long, short := newAsker(t, s, "k", hourly(100)), newAsker(t, s, "l", store.Limit{Quota: 10, Per: 200 * time.Millisecond})
	heard := make(chan string, 100)
	stop, err := s.Watch(t.Context(), func(h store.Hint) { heard <- h.Key })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if !later(s) {
		t.Error("it hears of nothing from the first primary")
	}
	long.ask(1)
	short.ask(1)
	await(t, func() bool { return replica.Must("DBSIZE") == primary.Must("DBSIZE") })
	// Not long before the primary dies: sentinels want no replica that is far behind.
	replica.Must("CONFIG", "SET", "masterauth", "wrong")
	replica.Must("CLIENT", "KILL", "TYPE", "master")
	await(t, func() bool { return strings.Contains(replica.Must("INFO", "replication"), "link_status:down") })
	before := 1 + long.drain()
	primary.Kill()
	for _, s := range sentinels { // now, so that nobody is missed but who is dead
		s.Must("SENTINEL", "SET", "main", "down-after-milliseconds", "1000", "failover-timeout", "4000")
	}
	died := time.Now()
	for {
		if answer, err := short.sendOne(1); err == nil && answer.Granted == 1 {
			break
		}
		if time.Since(died) > time.Minute {
			t.Fatal("nothing is granted any more")
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("grants %v after the primary died", time.Since(died))
	sum := before + long.drain()
	if before != 100 || (sum > 100) != broken {
		t.Errorf("%d granted before the failover, %d together, of 100", before, sum)
	}
	if replica.Must("ROLE")[:6] != "master" {
		t.Error("the replica is none of it")
	}
	// The subscription is at the new primary, and known to be.
	if !later(s) || len(heard) == 0 {
		t.Errorf("it hears of nothing from the next primary, or began without a word: %d hints", len(heard))
	}
	for len(heard) > 0 {
		<-heard
	}
	await(t, func() bool {
		it := short.item(0)
		it.Cool = []store.Cool{{Scope: "tenant:" + strconv.Itoa(int(it.Seq)), For: time.Minute}}
		if _, err := short.send(it); err != nil {
			return false
		}
		for end := time.After(100 * time.Millisecond); ; {
			select {
			case key := <-heard:
				if key == "l" {
					return true
				}
			case <-end:
				return false
			}
		}
	})
}

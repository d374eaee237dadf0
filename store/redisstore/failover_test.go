package redisstore

import (
	"strconv"
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
	for _, broken := range []bool{false, true} {
		t.Run("control "+strconv.FormatBool(broken), func(t *testing.T) {
			t.Parallel()
			nodes := servers.Cluster(t, time.Second)
			var addrs []string
			for _, n := range nodes {
				addrs = append(addrs, n.Addr)
			}
			s := open(t, Config{Addrs: addrs, Cluster: true, SplitBrainBound: time.Second})
			if err := s.AssumeUnused(t.Context()); err != nil {
				t.Fatal(err)
			}
			if broken {
				believesAll(t, s)
			}
			long, short := newAsker(t, s, "k", hourly(100)), newAsker(t, s, "k", store.Limit{Quota: 10, Per: 200 * time.Millisecond})
			short.key = sameSlot("k")
			long.ask(1)
			short.ask(1)
			shard := slotOf("k") * 3 / slots
			primary, replica := nodes[shard], nodes[shard+3]
			await(t, func() bool {
				v, err := replica.Do("HGET", hashOf("k"), "t") // MOVED: it has the slot, and knows who serves it
				return err != nil && v == ""
			})
			time.Sleep(200 * time.Millisecond) // the replica has what there is
			replica.Must("CONFIG", "SET", "masterauth", "wrong")
			replica.Must("CLIENT", "KILL", "TYPE", "master")
			time.Sleep(100 * time.Millisecond)
			before := 1 + long.drain()
			primary.Kill()
			died := time.Now()
			for {
				if _, err := short.sendOne(0); err == nil {
					break
				}
				if time.Since(died) > 30*time.Second {
					t.Fatalf("no replica takes over:\n%s\n%s", replica.Must("CLUSTER", "NODES"), replica.Log())
				}
				time.Sleep(20 * time.Millisecond)
			}
			over := time.Since(died)
			for short.ask(1).Granted == 0 {
				if time.Since(died) > over+s.bound+5*time.Second {
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
				for i := 0; ; i++ { // what another shard has is as before
					if other.key = "o" + strconv.Itoa(i); slotOf(other.key)*3/slots != shard {
						break
					}
				}
				if got := other.drain(); got != 10 {
					t.Errorf("another shard grants %d of 10", got)
				}
			}
		})
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

// When a shard is down, the others' items are answered.
func TestItemsOfAShardThatIsDownFailAlone(t *testing.T) {
	t.Parallel()
	nodes := servers.Cluster(t, 30*time.Second, "--cluster-require-full-coverage", "no")
	s := open(t, Config{Addrs: []string{nodes[0].Addr, nodes[1].Addr, nodes[2].Addr}, Cluster: true})
	if err := s.AssumeUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := newAsker(t, s, "", hourly(10))
	var items []store.Item
	for i := range 20 {
		it := a.item(1)
		it.Key = "k" + strconv.Itoa(i)
		items = append(items, it)
	}
	if _, err := s.Exchange(t.Context(), a.node, items); err != nil {
		t.Fatal(err)
	}
	nodes[0].Kill()
	for i := range items {
		items[i].Seq++
	}
	answers, err := s.Exchange(t.Context(), a.node, items)
	if err != nil {
		t.Fatal(err)
	}
	for i, answer := range answers {
		down := slotOf(items[i].Key)*3/slots == 0
		if (answer.Err != nil) != down || (answer.Granted == 1) == down || definite(answer.Err) {
			t.Errorf("shard %d is down: %+v", slotOf(items[i].Key)*3/slots, answer)
		}
	}
}

func TestFailoverBySentinels(t *testing.T) {
	t.Parallel()
	primary := servers.Redis(t)
	replica := servers.Replica(t, primary)
	var addrs []string
	for _, s := range servers.Sentinels(t, "main", primary, 1, time.Second) {
		addrs = append(addrs, s.Addr)
	}
	s := open(t, Config{Addrs: addrs, Master: "main", SplitBrainBound: 500 * time.Millisecond})
	if err := s.AssumeUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	long, short := newAsker(t, s, "k", hourly(100)), newAsker(t, s, "l", store.Limit{Quota: 10, Per: 200 * time.Millisecond})
	before := long.drain()
	heard := make(chan string, 100)
	stop, err := s.Watch(t.Context(), func(key string) { heard <- key })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if !later(s) {
		t.Error("it hears of nothing from the first primary")
	}
	primary.Kill()
	died := time.Now()
	for {
		if answer, err := short.sendOne(1); err == nil && answer.Granted == 1 {
			break
		}
		if time.Since(died) > 30*time.Second {
			t.Fatal("nothing is granted any more")
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("grants %v after the primary died", time.Since(died))
	if after := long.drain(); before != 100 || after != 0 {
		t.Errorf("%d granted of 100, and %d after the failover", before, after)
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

func TestTheDocumentedACLOfACluster(t *testing.T) {
	t.Parallel()
	nodes := servers.Cluster(t, 10*time.Second)
	rules := append(documentedACL(t), "+cluster|slots", "+command", "+readonly")
	var addrs []string
	for _, n := range nodes {
		n.Must(append([]string{"ACL", "SETUSER", "flyball", ">secret1"}, rules...)...)
		addrs = append(addrs, n.Addr)
	}
	if err := everything(open(t, user0(Config{Addrs: addrs, Cluster: true}))); err != nil {
		t.Error(err)
	}
	for _, n := range nodes {
		if log := n.Must("ACL", "LOG"); log != "" {
			t.Errorf("refused: %.2000s", log)
		}
	}
}

package redisstore

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
	"github.com/redis/go-redis/v9"
)

// engines makes an engine of the conformance suite for each check, of each cfg in turn.
// What is there when it begins, and after lose, is said to be unused.
func engines(lose func(), cfgs ...Config) storetest.Config {
	var mu sync.Mutex
	made, lost := 0, true
	return storetest.Config{New: func(tb storetest.TB) storetest.Engine {
		mu.Lock()
		defer mu.Unlock()
		made++
		cfg := cfgs[made%len(cfgs)]
		cfg.TTL, cfg.SplitBrainBound = testTTL, -1
		s, err := New(cfg)
		if err != nil {
			tb.Fatalf("%v", err)
		}
		tb.(testing.TB).Log(cfg)
		tb.(testing.TB).Cleanup(func() { s.Close() })
		if lost { // once, as it is work for a Cluster
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := s.AssumeUnused(ctx); err != nil {
				tb.Fatalf("AssumeUnused: %v", err)
			}
			lost = false
		}
		return storetest.Engine{Store: s, Lose: func() {
			mu.Lock()
			defer mu.Unlock()
			lost = true
			lose()
		}}
	}}
}

// One server, by its address and by its sentinels, as the user of the documentation,
// who also may ask for what it says of hints.
// The two clients differ in how they come to a connection only: by default each check
// gets one of them.
func TestConformanceOfOneServer(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t)
	servers.Replica(t, r)
	direct := user(t, r, Config{Addrs: []string{r.Addr}})
	r.Must("ACL", "SETUSER", "flyball", "+subscribe", "+pubsub|numsub") // to know what is heard
	watched := direct
	watched.Addrs, watched.Master = nil, "main"
	for _, s := range servers.Sentinels(t, "main", r, 1, time.Minute) {
		watched.Addrs = append(watched.Addrs, s.Addr)
	}
	lose := func() { r.Must("FLUSHALL") }
	if effort.Usual() {
		t.Run("either", func(t *testing.T) { storetest.Run(t, engines(lose, direct, watched)) })
	} else {
		t.Run("standalone", func(t *testing.T) { storetest.Run(t, engines(lose, direct)) })
		t.Run("sentinels", func(t *testing.T) { storetest.Run(t, engines(lose, watched)) })
	}
	if log := r.Must("ACL", "LOG"); log != "" {
		t.Errorf("refused: %.2000s", log)
	}
}

func TestConformanceOfACluster(t *testing.T) {
	t.Parallel()
	nodes := servers.Cluster(t, time.Minute)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	cfg := Config{Addrs: addrs, Cluster: true}
	t.Run("slots", func(t *testing.T) { slotsAreThoseOf(t, nodes[0]) })
	t.Run("documented ACL", func(t *testing.T) { clusterACL(t, nodes, cfg) })
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, engines(func() {
			for _, n := range nodes[:3] {
				n.Must("FLUSHALL")
			}
		}, cfg))
	})
	t.Run("a shard that is down", func(t *testing.T) { itemsOfADeadShard(t, nodes, cfg) })
}

func slotsAreThoseOf(t *testing.T, r *servers.RedisServer) {
	if got := slotOf("123456789"); got != 0x31C3%slots {
		t.Errorf("the slot of 123456789 is %d, want %d", got, 0x31C3%slots)
	}
	client := redis.NewClient(&redis.Options{Addr: r.Addr})
	defer client.Close()
	pipe := client.Pipeline()
	for _, name := range witnesses() {
		pipe.ClusterKeySlot(context.Background(), name)
	}
	cmds, err := pipe.Exec(context.Background())
	if err != nil || len(cmds) != slots {
		t.Fatal(len(cmds), err)
	}
	for slot, cmd := range cmds {
		if got := cmd.(*redis.IntCmd).Val(); got != int64(slot) {
			t.Fatalf("%s is in slot %d, want %d", witnesses()[slot], got, slot)
		}
	}
}

func clusterACL(t *testing.T, nodes []*servers.RedisServer, cfg Config) {
	rules := append(documentedACL(t), "+cluster|slots", "+command", "+readonly")
	for _, n := range nodes {
		n.Must(append([]string{"ACL", "SETUSER", "flyball", ">secret1"}, rules...)...)
	}
	if err := everything(open(t, user0(cfg)), time.Minute); err != nil {
		t.Error(err)
	}
	for _, n := range nodes {
		if log := n.Must("ACL", "LOG"); log != "" {
			t.Errorf("refused: %.2000s", log)
		}
	}
}

// When a shard is down, the others' items are answered.
func itemsOfADeadShard(t *testing.T, nodes []*servers.RedisServer, cfg Config) {
	for _, n := range nodes {
		n.Must("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	s := open(t, cfg)
	if err := s.AssumeUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := newAsker(t, s, "", hourly(10))
	var items []store.Item
	for i := range 20 {
		it := a.item(1)
		it.Key = "shard" + strconv.Itoa(i)
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

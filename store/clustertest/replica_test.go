package clustertest

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
	"github.com/flyball-go/flyball/store/redisstore"
	"github.com/flyball-go/flyball/throttle"
)

// replicaEnv holds the replica that this process is to be, as JSON. The test's binary
// is the replicas' program, too.
const replicaEnv = "FLYBALL_REPLICA"

func TestMain(m *testing.M) {
	if said := os.Getenv(replicaEnv); said != "" {
		if err := runReplica(said); err != nil {
			fmt.Fprintln(os.Stderr, "replica:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Set("test.parallel", strconv.Itoa(atOnce())) // before the command line is parsed, which wins
	end := late.begin()
	code := m.Run()
	end()
	maria.host.Close()
	os.Exit(code)
}

// atOnce is how many runs there should be at once: they mostly wait, and little else is
// to be had of more processors; but less than is usual on a machine that is slower, else
// none of them gets far.
func atOnce() int {
	const usual = 50 * time.Millisecond
	begin, x := time.Now(), uint64(1)
	for range 25_000_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	work = x // else nothing of it need be done
	return int(max(2, 8*usual/max(usual, time.Since(begin))))
}

var work uint64

// replica is what a process is told to do.
type replica struct {
	job            // of scenarios with one
	Beside   []job // that it has in governors of their own, with the same Syncer
	Name     string
	Redis    string        // address,
	Cluster  []string      // or addresses of a Redis Cluster's nodes,
	MySQL    string        // or DSN
	TTL      time.Duration // 0: ttl
	Bound    time.Duration // of a split brain
	Interval time.Duration // of its Syncer. 0: 600 ms
	Defaults bool          // but for that its Syncer has the default configuration
	Deaf     bool          // it hears no hints, from its begin on
	Astray   int           // its wall clock goes its own way, by that pattern; 0: it does not
	Broken   string
	Outage   store.Outage
	Part     float64
	Nodes    int
	Silent   judge.Kind // what it does not say
}

// job is what a replica calls one vendor for. The other names are its own.
type job struct {
	Job     string // its name; "": the first
	Vendor  string // URL
	History string // file
	Limit   *store.Limit
	Slots   int
	Every   time.Duration // between two submits; 0: only as it is told
	Cancel  bool          // half of them, at random instants
}

const (
	ttl     = 10 * time.Second
	workers = 16
)

// host is the name of the job's governor, and its Slots; sharing is that of its Share.
func (j *job) host() string    { return strings.TrimSpace("acme " + j.Job) }
func (j *job) sharing() string { return j.host() + " calls" }

// key is the store's key of the job's Share.
func (j *job) key() string { return store.KeyFor(j.sharing(), throttle.Scope{}.String()) }

// jobs are all of r's.
func (r *replica) jobs() []*job {
	all := []*job{&r.job}
	for i := range r.Beside {
		all = append(all, &r.Beside[i])
	}
	return all
}

func (r *replica) open(ctx context.Context) (store.Store, error) {
	ttl := cmp.Or(r.TTL, ttl)
	if r.Redis != "" {
		return redisstore.New(redisstore.Config{Addrs: []string{r.Redis}, TTL: ttl})
	}
	if r.Cluster != nil {
		return redisstore.New(redisstore.Config{Addrs: r.Cluster, Cluster: true, TTL: ttl, SplitBrainBound: r.Bound})
	}
	for { // the server may be away just now
		s, err := mysqlstore.Open(ctx, mysqlstore.Config{DSN: r.MySQL, TTL: ttl})
		if err == nil || ctx.Err() != nil {
			return s, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func runReplica(said string) error {
	var r replica
	if err := json.Unmarshal([]byte(said), &r); err != nil {
		return err
	}
	if r.Astray != 0 {
		if err := goAstray(r.Astray); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	engine, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer engine.Close()
	if r.Deaf && r.Redis == "" { // else its proxy loses them: see hints
		engine = deaf{engine}
	}
	p := process{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}, Timeout: patience}}
	noted := &noting{Store: breakIt(engine, r.Broken), logs: make(map[string]*judge.Writer)}
	for _, j := range r.jobs() {
		file, err := os.OpenFile(j.History, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		l := p.life(j, r.Name, judge.NewWriter(file, r.Name))
		p.lives = append(p.lives, l)
		noted.logs[j.key()] = l.log
	}
	noted.trips = p.lives[0].log
	cfg := store.SyncerConfig{Store: noted, Outage: r.Outage, Part: r.Part, Nodes: r.Nodes, OnEvent: r.says(p.lives[0].log),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if cfg.Interval = r.Interval; !r.Defaults {
		// What is lost is cut off, so nothing waits for the Timeout but what is slow.
		cfg.Interval, cfg.Timeout = cmp.Or(r.Interval, 600*time.Millisecond), cmp.Or(r.TTL, ttl)/2
	}
	if r.Broken == forever && r.Limit != nil {
		cfg.Interval = time.Minute // see broken.TTL
	}
	if p.shared, err = store.NewSyncer(cfg); err != nil {
		return err
	}
	defer p.shared.Close()
	for _, l := range p.lives {
		if err := l.begin(p.shared, cmp.Or(r.TTL, ttl)); err != nil {
			return err
		}
	}
	return p.work(os.Stdin)
}

package clustertest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
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
	Name    string
	Redis   string   // address,
	Cluster []string // or addresses of a Redis Cluster's nodes,
	MySQL   string   // or DSN
	Vendor  string   // URL
	History string   // file
	Limit   *store.Limit
	Slots   int
	TTL     time.Duration // 0: ttl
	Bound   time.Duration // of a split brain
	Every   time.Duration // between two submits; 0: only as it is told
	Cancel  bool          // half of them, at random instants
	Deaf    bool
	Astray  int // its wall clock goes its own way, by that pattern; 0: it does not
	Broken  string
}

const (
	ttl     = 10 * time.Second
	workers = 16
	calls   = "acme calls" // the Share's name
)

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

// paused is the vendor's refusal.
type paused struct{ d time.Duration }

func (p paused) Error() string { return "refused for " + p.d.String() }

type adapter struct{}

func (adapter) DelayError(err error) (time.Duration, bool) {
	p, ok := errors.AsType[paused](err)
	return p.d, ok
}

// life is a replica under way.
type life struct {
	replica
	log     *judge.Writer
	g       *governor.Plain
	client  *http.Client
	calls   atomic.Int64
	permits permits
}

func runReplica(said string) error {
	var l life
	if err := json.Unmarshal([]byte(said), &l.replica); err != nil {
		return err
	}
	file, err := os.OpenFile(l.History, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	l.log = judge.NewWriter(file, l.Name)
	if l.Astray != 0 {
		if err := goAstray(l.Astray); err != nil {
			return err
		}
	}
	l.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}, Timeout: patience}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	engine, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer engine.Close()
	if l.Deaf {
		engine = deaf{engine}
	}
	// What is lost is cut off, so nothing waits for the Timeout but what is slow.
	noted := &noting{Store: breakIt(engine, l.Broken), log: l.log}
	interval := 600 * time.Millisecond
	if l.Broken == forever {
		interval = time.Minute // see broken.TTL
	}
	shared, err := store.NewSyncer(store.SyncerConfig{Store: noted, Interval: interval, Timeout: cmp.Or(l.TTL, ttl) / 2,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer shared.Close()
	cfg := governor.PlainConfig{Name: "acme", Vendor: adapter{}, Workers: workers, Store: shared, NoPace: true}
	if l.Limit != nil {
		share, err := shared.Share(store.ShareConfig{Name: calls, Limits: []store.Limit{*l.Limit}, Version: 1})
		if err != nil {
			return err
		}
		cfg.Limits = append(cfg.Limits, governor.Limit{Limiter: asked{share, &l.permits}}, governor.Limit{Per: throttle.Bucket, Limiter: &l.permits})
	}
	if l.Slots > 0 {
		slots, err := shared.Slots(store.SlotsConfig{Name: "acme", Max: l.Slots})
		if err != nil {
			return err
		}
		cfg.Limits = append(cfg.Limits, governor.Limit{Limiter: slots})
	}
	if l.g, err = governor.New(cfg); err != nil {
		return err
	}
	l.listen()
	if err := l.work(shared, os.Stdin); err != nil {
		return err
	}
	if err := l.g.Close(); err != nil {
		return err
	}
	return l.log.Err()
}

func (l *life) listen() {
	l.g.Listen(func(e event.Event) {
		if e.Scope != "host" {
			return
		}
		kind := judge.Cool
		if e.Kind == event.Cleared {
			kind = judge.Clear
		}
		// By its distance from now, as the wall clock may be anywhere.
		now, at := both()
		l.log.Write(judge.Record{At: at, Kind: kind, Until: at + int64(e.Until.Sub(now))})
	}, event.Cooling, event.Extended, event.Cleared)
}

// both is the same time by both clocks: by as much as a millisecond, if this process
// can do that without being stopped in between.
func both() (now time.Time, at int64) {
	for range 100 {
		before := clock()
		now, at = time.Now(), clock()
		if at-before < int64(time.Millisecond) {
			break
		}
	}
	return now, at
}

// work submits requests until in ends, and does what in says: "limit QUOTA VERSION", or
// "submit N".
func (l *life) work(shared *store.Syncer, in io.Reader) error {
	fmt.Println("ready")
	over, now := make(chan struct{}), make(chan int)
	var failed atomic.Pointer[error]
	go func() {
		defer close(over)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var quota int64
			var version uint64
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "submit %d", &n); err == nil {
				now <- n
				continue
			}
			if _, err := fmt.Sscanf(lines.Text(), "limit %d %d", &quota, &version); err != nil {
				failed.Store(&err)
				return
			}
			limit := *l.Limit
			limit.Quota = quota
			if _, err := shared.Share(store.ShareConfig{Name: calls, Limits: []store.Limit{limit}, Version: version}); err != nil {
				failed.Store(&err)
				return
			}
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var results sync.WaitGroup
	var ticks <-chan time.Time
	if l.Every > 0 {
		ticks = time.Tick(l.Every)
	}
	for id := int64(1); ; {
		select {
		case n := <-now:
			for range n {
				l.submit(ctx, id, &results)
				id++
			}
			continue
		case <-ticks:
			// Not more than a second's work waits: what cannot be done is not asked for.
			if l.g.Stats().Queued < int(time.Second/l.Every) {
				l.submit(ctx, id, &results)
				id++
			}
			continue
		case <-over:
		}
		break
	}
	cancel() // what waits is given up
	results.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (l *life) submit(ctx context.Context, id int64, results *sync.WaitGroup) {
	stop := func() {}
	if l.Cancel && rand.IntN(2) == 0 {
		ctx, stop = context.WithTimeout(ctx, rand.N(300*time.Millisecond))
	}
	l.log.Write(judge.Record{At: clock(), Kind: judge.Submit, ID: id})
	r := governor.Submit(ctx, l.g.With(governor.Ask{Bucket: bucket(id)}), "", governor.Func(func(ctx context.Context) (int, error) { return 0, l.call(ctx, id) }))
	results.Go(func() {
		defer stop()
		_, err := r.Result(context.Background())
		outcome := "ok"
		if err != nil {
			outcome = err.Error()
		}
		l.log.Write(judge.Record{At: clock(), Kind: judge.Settle, ID: id, Outcome: outcome})
	})
}

// call makes one call. A request that is cancelled waits for its call, as what has
// begun is to end before its request does.
func (l *life) call(ctx context.Context, request int64) error {
	id := l.calls.Add(1)
	l.log.Write(judge.Record{At: clock(), Kind: judge.Begin, ID: id, Request: request, Taken: l.permits.of(bucket(request))})
	defer func() { l.log.Write(judge.Record{At: clock(), Kind: judge.Finish, ID: id}) }()
	resp, err := l.client.Get(fmt.Sprintf("%s?node=%s&id=%d", l.Vendor, l.Name, id))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode == http.StatusTooManyRequests {
		ms, _ := strconv.Atoi(resp.Header.Get("Retry-After-Ms"))
		return paused{time.Duration(ms) * time.Millisecond}
	}
	return nil
}

package dashboard

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/flyball-go/flyball/governor"
)

// Config says what a Dashboard shows and to whom. Only Governors is required. It is
// copied by New.
type Config struct {
	// Governors returns the governors to show: see Of and OfGroup; those of all hosts
	// of an httpx.Transport are its Governors. It is called once a second, on one
	// goroutine at a time, and should be quick. One that is not returned any more is
	// forgotten; while it panics, those stay that were there. It may be nil when there
	// are Peers.
	Governors func() []governor.Handle

	// Process is the name of this process on the pages of its peers. "" means that of
	// the program, the host, and the process's number.
	Process string

	// Peers are the addresses of other processes' dashboards, such as
	// http://10.0.0.7:8080/flyball/, at most 100: what they show is shown beside what
	// is this process's own, while someone looks. A peer is asked for its own
	// governors alone, so that two may name each other. Which addresses these are is
	// not shown, but the host of one that has not answered yet.
	Peers []string

	// PeerClient asks them. nil means one that follows no redirects. A password in an
	// address is sent as net/http does.
	PeerClient *http.Client

	// PeerTimeout is how long an answer may take. 0 means 2 s.
	PeerTimeout time.Duration

	// Guard says whether a request may pause, resume and clear. It is called for each
	// of these, and when the page asks whether to offer them. nil: nobody may.
	Guard func(*http.Request) bool

	// History is how far back the charts go: 10 s to 1 h. 0 means 5 min.
	History time.Duration

	// MaxClients is how many may look at once; one more is told to come later. 0 means
	// 64.
	MaxClients int

	// OnDemand makes governors be asked only while someone looks. Then the charts
	// begin when the page is opened.
	OnDemand bool

	// Logger gets a record of each action, done or refused, and of each panic of
	// Governors, or of what a governor asks. nil discards.
	Logger *slog.Logger
}

// Of returns a Config.Governors of governors that stay the same.
func Of(governors ...governor.Handle) func() []governor.Handle {
	governors = slices.Clone(governors)
	return func() []governor.Handle { return governors }
}

// OfGroup returns a Config.Governors of those that a group has at the time, by name.
func OfGroup[S comparable, C any](g *governor.Group[S, C]) func() []governor.Handle {
	return g.Handles
}

// Dashboard is the page. Make one with New, serve it as an http.Handler under a path
// that ends in a slash, and close it.
type Dashboard struct {
	cfg   Config
	boot  string // tells this Dashboard's ticks from another's
	texts texts
	cross http.CrossOriginProtection
	peers []*peer

	ctx     context.Context // of the peers' requests; it ends with Close
	stop    context.CancelFunc
	done    chan struct{}      // closed when run has ended
	poke    chan struct{}      // of one: something was decided that people want to see at once
	work    sync.WaitGroup     // what Close waits for beside run: requests to peers, streams
	now     func() time.Time   // time.Now
	keys    [32]byte           // makes cooldowns' names unguessable, and not readable
	fresh   chan chan struct{} // asks run for a sample
	all     []governor.Handle  // as listed last; run's alone
	sampled time.Time          // when a point was added last; run's alone
	page    map[string]payload // the assets

	// mu guards what follows. Nothing of the user's is called under it.
	mu      sync.Mutex
	entries []*entry // in the order of the list; entries have locks of their own
	tick    uint64   // of the last sample; it counts samples and updates between
	told    [2]told  // overviews, for who may not act and who may
	clients map[*client]struct{}
	closed  bool
}

// New returns a Dashboard that watches until Close, or an error that names the field
// of cfg that is wrong and its value.
func New(cfg Config) (*Dashboard, error) {
	bad := func(field string, value any, want string) (*Dashboard, error) {
		return nil, fmt.Errorf("dashboard: Config.%s is %v, want %s", field, value, want)
	}
	switch {
	case cfg.Governors == nil && len(cfg.Peers) == 0:
		return bad("Governors", "nil", "a function")
	case cfg.History != 0 && (cfg.History < 10*time.Second || cfg.History > time.Hour):
		return bad("History", cfg.History, "10s to 1h0m0s")
	case cfg.MaxClients < 0:
		return bad("MaxClients", cfg.MaxClients, "0 or more")
	case cfg.PeerTimeout < 0:
		return bad("PeerTimeout", cfg.PeerTimeout, "0 or more")
	case len(cfg.Peers) > maxPeers:
		return bad("Peers", fmt.Sprintf("of length %d", len(cfg.Peers)), fmt.Sprintf("at most %d", maxPeers))
	}
	if cfg.Governors == nil {
		cfg.Governors = Of()
	}
	if cfg.Process == "" {
		host, _ := os.Hostname() // "" will do
		cfg.Process = fmt.Sprintf("%s@%s (%d)", filepath.Base(os.Args[0]), host, os.Getpid())
	}
	if cfg.History == 0 {
		cfg.History = 5 * time.Minute
	}
	if cfg.MaxClients == 0 {
		cfg.MaxClients = 64
	}
	if cfg.PeerTimeout == 0 {
		cfg.PeerTimeout = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dashboard{
		cfg: cfg, boot: rand.Text()[:8], now: time.Now, page: payloads(),
		done: make(chan struct{}), poke: make(chan struct{}, 1), fresh: make(chan chan struct{}), clients: make(map[*client]struct{}),
	}
	rand.Read(d.keys[:])
	d.cfg.Process = d.texts.clean(cfg.Process)
	for i, address := range cfg.Peers {
		p, err := newPeer(d, address)
		if err != nil {
			return nil, fmt.Errorf("dashboard: Config.Peers[%d]: %w", i, err)
		}
		d.peers = append(d.peers, p)
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.list()
	if !cfg.OnDemand {
		d.sample(true)
	}
	go d.run()
	return d, nil
}

// Close ends what New began, and every stream; it returns when nothing of it is left.
// After that the page answers 503. An http.Server waits in its Shutdown for the
// streams of those who look: hand it Close by RegisterOnShutdown. Further calls do
// nothing. The error is nil.
func (d *Dashboard) Close() error {
	d.mu.Lock()
	d.closed = true
	for c := range d.clients {
		c.cut()
	}
	d.mu.Unlock()
	d.stop()
	<-d.done
	d.work.Wait()
	for _, p := range d.peers {
		p.client.CloseIdleConnections()
	}
	return nil
}

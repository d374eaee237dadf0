package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/store"
)

// Store is the engine. It may be used by any number of goroutines at once.
type Store struct {
	cfg    Config
	db     *sql.DB
	own    bool // db is closed by Close
	q      *queries
	tokens chan struct{} // one for each session in use

	ctx  context.Context // ends with the Store
	stop context.CancelFunc
	done <-chan struct{} // of ctx
	bg   sync.WaitGroup  // the poller
	keys atomic.Int64    // how many rows there are, about

	heard atomic.Pointer[time.Time] // see HeardUntil; nil: never

	// mu guards what follows. Nothing is called under it.
	mu       sync.Mutex
	closed   bool
	idle     []*session
	fence    fence
	watchers map[int]func(store.Hint)
	watches  int
}

var _ store.Attentive = (*Store)(nil)

// Open connects to the server, checks that it is one that keeps what it is told, and
// that the tables are those of this version, and begins to poll. An error that
// matches ErrSchema says that they are not: Migrate makes them.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, db: cfg.DB, watchers: make(map[int]func(store.Hint))}
	if s.db == nil {
		var err error
		if s.db, err = cfg.open(); err != nil {
			return nil, err
		}
		s.own = true
	}
	if most := s.db.Stats().MaxOpenConnections; most > 0 {
		s.cfg.Sessions = min(s.cfg.Sessions, most)
	}
	s.tokens = make(chan struct{}, s.cfg.Sessions)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.done = s.ctx.Done()
	if err := s.begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.bg.Go(s.poll)
	return s, nil
}

func (s *Store) begin(ctx context.Context) error {
	if s.cfg.AutoMigrate {
		if err := Migrate(ctx, s.db, s.cfg.Prefix); err != nil {
			return err
		}
	}
	if err := checkSchema(ctx, s.db, s.cfg.Prefix); err != nil {
		return err
	}
	return s.selfTest(ctx)
}

// TTL returns Config.TTL.
func (s *Store) TTL() time.Duration { return s.cfg.TTL }

// String is the Store's Config, without its password.
func (s *Store) String() string { return s.cfg.String() }

// Close ends the poller, and what is under way, and waits for both.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	idle := s.idle
	s.idle = nil
	clear(s.watchers)
	s.mu.Unlock()
	s.stop()
	s.bg.Wait()
	for range cap(s.tokens) { // who is under way has seen that ctx has ended
		s.tokens <- struct{}{}
	}
	for _, ss := range idle {
		ss.close()
	}
	if s.own {
		if err := s.db.Close(); err != nil {
			return fmt.Errorf("mysqlstore: %w", err)
		}
	}
	return nil
}

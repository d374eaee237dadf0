package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// maxNodes is how many nodes there may be under one key, as in exchange/request.lua.
const maxNodes = 1024

// Store is a [store.Store] in Redis. It may be used by any number of goroutines at
// once, and must be closed.
type Store struct {
	cfg     Config
	ttl     time.Duration
	bound   time.Duration
	client  redis.UniversalClient
	conns   conns
	once    bool         // the client is our own, of one server at a time, and sends a command once
	alone   bool         // there is one server, of which the subscriptions are, too
	follows bool         // commands go to one server at a time, which another may replace
	script  *script      // exchangeScript, but in tests
	strange atomic.Int64 // replies that made no sense
	unbound sync.Once    // it was told that nothing bounds a split brain

	batcher batcher
	work    sync.WaitGroup // what Close waits for

	// mu guards what follows. Nothing is called under it.
	mu       sync.Mutex
	closed   bool
	watches  map[int]*watch
	nextID   int
	prepared map[string]*prepared // by key
	run      string               // of the server that executed last, but on a Cluster
}

var _ store.Attentive = (*Store)(nil)

// New returns a Store of the Redis that cfg names. It does not wait for the server,
// nor find out whether there is one. The error names the field that is out of range.
func New(cfg Config) (*Store, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, ttl: cfg.TTL, bound: cfg.SplitBrainBound, client: cfg.Client, script: exchangeScript, watches: make(map[int]*watch), prepared: make(map[string]*prepared)}
	s.conns = conns{cfg: &s.cfg, open: make(map[*conn]bool)}
	if s.client == nil {
		s.client, s.once, s.alone = s.cfg.connect(s.conns.dial), !cfg.Cluster, !cfg.Cluster && cfg.Master == ""
	}
	_, one := s.client.(*redis.Client)
	s.follows = one && !s.alone
	s.batcher.one, s.batcher.all, s.batcher.work = s.command, s.pipeline, &s.work
	return s, nil
}

// TTL returns Config.TTL.
func (s *Store) TTL() time.Duration { return s.ttl }

// String names the servers.
func (s *Store) String() string { return s.cfg.String() }

// witness is the name of what knows how long the server has been there, in the slot
// of key.
func (s *Store) witness(key string) string {
	if s.cfg.Cluster {
		return witnesses()[slotOf(key)]
	}
	return witness
}

// begin notes that something begins that Close is to wait for: the caller calls
// work.Done.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrNotExecuted, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	s.work.Add(1)
	return nil
}

// Close ends the watches, waits for what is under way, and closes the connections.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	watches := s.watches
	s.watches = nil
	s.mu.Unlock()
	for _, w := range watches {
		w.stop()
	}
	s.work.Wait()
	if first && s.cfg.Client == nil {
		return s.client.Close()
	}
	return nil
}

// AssumeUnused says, as somebody who knows it, that nothing was granted under keys
// that are absent, and that what was lost before does not count any more. Otherwise
// the first Per under a key passes without a grant when the database is new, or has
// lost its state. It is for the first deployment, and for tests. Keys that are there
// keep what is taken under them.
//
// On a Cluster, where each slot is new by itself, it writes to all of them.
func (s *Store) AssumeUnused(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.work.Done()
	names := []string{witness}
	if s.cfg.Cluster {
		names = witnesses()
	}
	for len(names) > 0 {
		n := min(len(names), 1024)
		cmds := make([]*redis.StringCmd, n)
		for i, name := range names[:n] {
			cmds[i] = redis.NewStringCmd(ctx, "evalsha", witnessScript.sha, "1", name)
		}
		names = names[n:]
		s.eval(ctx, witnessScript, cmds)
		for _, c := range cmds {
			if err := c.Err(); err != nil {
				return s.failure(err)
			}
		}
	}
	return nil
}

// failure is err, of the client, as package store has it.
func (s *Store) failure(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return store.ErrClosed
	}
	var reply redis.Error
	if !errors.As(err, &reply) || errors.Is(err, redis.Nil) || errors.Is(err, io.EOF) {
		return fmt.Errorf("redisstore: %w", err)
	}
	// The scripts write when they have read all, so that an error of the server says
	// that nothing was executed: if it was asked once.
	text := strings.TrimPrefix(reply.Error(), "ERR ")
	switch {
	case strings.HasPrefix(text, "TOOMANY"):
		return fmt.Errorf("%w: %d nodes under the key", store.ErrTooMany, maxNodes)
	case strings.HasPrefix(text, "GARBAGE"), strings.HasPrefix(text, "WRONGTYPE"), strings.HasPrefix(text, "user_script"):
		return fmt.Errorf("%w: redisstore: %w", store.ErrInvalid, err)
	case s.once:
		return fmt.Errorf("%w: redisstore: %w", store.ErrNotExecuted, err)
	}
	return fmt.Errorf("redisstore: %w", err)
}

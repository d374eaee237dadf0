package store

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
)

// Syncer keeps a process up with a store, so that nobody in it ever waits for the
// store but this one: what its Shares are asked they answer from what the Syncer
// has fetched. One per process and store is enough, for any number of governors.
//
// It may be used by any number of goroutines at once, and must be closed.
type Syncer struct {
	cfg   SyncerConfig
	node  Node
	base  time.Time            // of the clock
	step  func() time.Duration // by how much the wall clock was set; nil but in tests
	wake  chan struct{}
	stop  context.CancelFunc
	ctx   context.Context // ends with Close
	done  chan struct{}   // loop has ended
	work  sync.WaitGroup  // exchanges under way
	watch func()

	// mu guards what follows, and all cells. It is held for arithmetic and map
	// look-ups, never while a store, or anything of the user's, is called.
	mu      sync.Mutex
	closed  bool
	seq     uint64
	cells   map[string]*cell
	shares  map[string]*sharing
	due     cellHeap
	running int // exchanges under way
	lost    bool
	fails   int   // exchanges in a row that failed
	retry   int64 // none is begun before
	epoch   string
	events  []event.Event // of Unguarded, not yet told
}

// maxRunning is how many exchanges are under way at once.
const maxRunning = 16

// NewSyncer returns a running Syncer. The error names the field that is out of
// range.
func NewSyncer(cfg SyncerConfig) (*Syncer, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	s := &Syncer{
		cfg: cfg, node: NewNode(), base: time.Now(),
		wake: make(chan struct{}, 1), done: make(chan struct{}), cells: make(map[string]*cell),
		shares: make(map[string]*sharing),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	go s.loop()
	return s, nil
}

// Node returns the name under which the store knows this process.
func (s *Syncer) Node() Node { return s.node }

// now is the time since base: by the monotonic clock, or by the wall clock when more
// time has passed there, as in a machine that was suspended. So leases only end
// earlier by it, whatever is done to the clocks.
func (s *Syncer) now() int64 { return s.since(time.Now()) }

func (s *Syncer) since(t time.Time) int64 {
	wall := t.UnixNano() - s.base.UnixNano()
	if s.step != nil {
		wall += int64(s.step())
	}
	return max(int64(t.Sub(s.base)), wall)
}

// Close gives back what was granted, as far as the store takes it within a second,
// and returns when nothing of the Syncer is left. Shares of a closed Syncer let
// nothing pass that is not granted. It may be called again.
func (s *Syncer) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		s.stop()
	}
	<-s.done
	s.work.Wait()
	if first {
		s.leave()
	}
	return nil
}

// leave says good-bye under every key, once.
func (s *Syncer) leave() {
	s.mu.Lock()
	var items []Item
	for _, c := range s.cells {
		if !c.told {
			continue
		}
		if len(items) == MaxItems {
			break // what is left the store forgets by itself
		}
		c.drop(s.now())
		s.seq++
		it := Item{Key: c.key, Seq: s.seq, Returned: c.give(), Debt: c.debt, Bye: true}
		if p := c.pending; p != nil { // charged twice, perhaps: the safe side
			it.Debt += p.Debt
			it.Cool = p.Cool
		}
		it.Debt = min(it.Debt, 1e9)
		items = append(items, it)
	}
	s.mu.Unlock()
	if len(items) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), min(time.Second, s.cfg.Timeout))
		defer cancel()
		s.cfg.Store.Exchange(ctx, s.node, items)
	}
}

// loop begins the exchanges that are due.
func (s *Syncer) loop() {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s.listen()
		s.report()
		next := s.begin()
		timer.Stop()
		if next != never {
			timer.Reset(time.Duration(max(0, next-s.now())))
		}
		select {
		case <-s.ctx.Done():
			if s.watch != nil {
				s.watch()
			}
			return
		case <-s.wake:
		case <-timer.C:
		}
	}
}

const never = int64(1<<63 - 1)

// listen subscribes to the store's hints, if it is not yet.
func (s *Syncer) listen() {
	if s.watch != nil {
		return
	}
	s.mu.Lock()
	early := s.now() < s.retry
	s.mu.Unlock()
	if early {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	if stop, err := s.cfg.Store.Watch(ctx, s.hint); err == nil {
		s.watch = stop
	}
}

// hint has the exchange of a key come early, since there may be news.
func (s *Syncer) hint(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if c := s.cells[key]; c != nil {
		c.hinted = true
		s.plan(c, now)
	} else if key == "" {
		for _, c := range s.cells {
			c.hinted = true
			s.plan(c, now)
		}
	}
}

// report tells of what passed unguarded.
func (s *Syncer) report() {
	s.mu.Lock()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	for _, e := range events {
		event.Tell(s.cfg.OnEvent, e)
	}
}

// plan has c exchanged at at, or earlier if that is planned. The caller holds mu.
func (s *Syncer) plan(c *cell, at int64) {
	if c.busy || c.idx > 0 && c.due <= at || s.closed {
		return
	}
	c.due = at
	if s.due.fix(c); s.due.first() == c {
		s.kick()
	}
}

func (s *Syncer) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// begin sends what is due and returns when the next is. The caller is loop.
func (s *Syncer) begin() (next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now < s.retry {
		return s.retry
	}
	for s.running < maxRunning {
		var batch []*cell
		var items []Item
		for len(batch) < MaxItems {
			c := s.due.first()
			if c == nil || c.due > now {
				break
			}
			s.due.remove(c)
			c.busy = true
			batch = append(batch, c)
			items = append(items, *c.item(now))
		}
		if len(batch) == 0 {
			if c := s.due.first(); c != nil {
				return c.due
			}
			return never
		}
		s.running++
		s.work.Add(1)
		go s.exchange(batch, items, now)
	}
	return never // the end of one wakes us
}

// exchange sends items, up to three times while nobody knows whether they arrived,
// and takes the answers. sent is before the first time.
func (s *Syncer) exchange(batch []*cell, items []Item, sent int64) {
	defer s.work.Done()
	var answers []Answer
	var err error
	for try := range 3 {
		if try > 0 {
			pause := time.NewTimer(time.Duration(1+rand.Int64N(20)) * time.Millisecond)
			select {
			case <-pause.C:
			case <-s.ctx.Done():
				pause.Stop()
			}
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
		answers, err = s.cfg.Store.Exchange(ctx, s.node, items)
		cancel()
		if err == nil && len(answers) != len(items) {
			err = errAnswer
		}
		if err == nil || s.ctx.Err() != nil || isDefinite(err) {
			break
		}
	}
	s.settled(batch, items, answers, err, sent)
}

// settled takes what came of an exchange.
func (s *Syncer) settled(batch []*cell, items []Item, answers []Answer, err error, sent int64) {
	var after []func() // to be called under no lock
	s.mu.Lock()
	now := s.now()
	s.running--
	s.kick()
	for i, c := range batch {
		c.busy = false
		switch {
		case err != nil:
			after = append(after, c.failed(now, err)...)
		case answers[i].Node != s.node || answers[i].Key != items[i].Key || answers[i].Seq != items[i].Seq:
			err = errAnswer // of somebody else's request
			after = append(after, c.failed(now, err)...)
		default:
			after = append(after, c.answered(&items[i], &answers[i], sent, now)...)
		}
		s.plan(c, c.next(now))
	}
	after = append(after, s.mood(err, now)...)
	s.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// mood notes whether the store answers. The caller holds mu.
func (s *Syncer) mood(err error, now int64) (after []func()) {
	if err == nil {
		s.fails, s.retry = 0, 0
		if s.lost {
			s.lost = false
			after = append(after, func() { s.tell(slog.LevelInfo, event.StoreBack, "", nil) })
			after = append(after, s.everybody()...)
		}
		return after
	}
	if s.ctx.Err() != nil {
		return nil
	}
	s.fails++
	wait := min(s.cfg.Interval, 50*time.Millisecond<<min(s.fails, 10))
	s.retry = now + int64(wait/2) + rand.Int64N(int64(wait/2)+1)
	if !s.lost {
		s.lost = true
		after = append(after, func() { s.tell(slog.LevelWarn, event.StoreLost, s.cfg.Outage.String(), err) })
		after = append(after, s.everybody()...)
	}
	return after
}

// everybody returns what tells the owners of all Shares to ask again.
func (s *Syncer) everybody() (after []func()) {
	for _, sh := range s.shares {
		after = append(after, sh.wake()...)
	}
	return after
}

// tell reports a change.
func (s *Syncer) tell(level slog.Level, kind event.Kind, source string, err error) {
	event.Tell(s.cfg.OnEvent, event.Event{Kind: kind, Name: "store", Source: source, Err: err})
	if s.cfg.Logger == nil {
		return
	}
	attrs := []slog.Attr{slog.String("node", string(s.node))}
	if source != "" {
		attrs = append(attrs, slog.String("source", source))
	}
	if err != nil {
		attrs = append(attrs, slog.String("err", err.Error()))
	}
	s.cfg.Logger.LogAttrs(context.Background(), level, kind.String(), attrs...)
}

package store

import (
	"context"
	"slices"
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
	cfg  SyncerConfig
	node Node
	base time.Time            // of the clock
	step func() time.Duration // by how much the wall clock was set; nil but in tests
	wake chan struct{}
	stop context.CancelFunc
	ctx  context.Context // ends with Close
	done chan struct{}   // loop has ended
	work sync.WaitGroup  // exchanges under way, and a Watch

	// mu guards what follows, and all cells. It is held for arithmetic and map
	// look-ups, never while a store, or anything of the user's, is called.
	mu       sync.Mutex
	wall     int64 // by how much the wall clock is ahead of the monotonic one
	ahead    int64 // by how much it ever went ahead of that, in all
	closed   bool
	seq      uint64
	cells    map[string]*cell
	shares   map[string]*sharing
	slots    map[string]*slotting
	stirred  []*owners // to be woken
	later    []*owners // to be woken at some time
	due      cellHeap
	running  int // exchanges under way
	lost     bool
	allLost  int64 // since then it is lost also for who has not found that out
	answered int64 // when the last exchange was sent that had an answer, by steady
	fails    int   // exchanges in a row that failed
	retry    int64 // none is begun before
	epoch    string
	empty    bool          // it was logged that nothing is granted at first
	news     []event.Event // not yet told
	reports  bool          // a goroutine tells them
	listens  bool          // a Watch is under way
	refused  int           // Watches in a row that failed
	listenAt int64         // none is begun before
	watch    func()        // ends what came of it; nil: nothing yet
	watched  int64         // since then hints come; never: they do not
	heardTo  int64         // no hint is missing of what was executed before
}

// NewSyncer returns a running Syncer. The error names the field that is out of
// range.
func NewSyncer(cfg SyncerConfig) (*Syncer, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	s := &Syncer{
		cfg: cfg, node: NewNode(), base: time.Now(),
		wake: make(chan struct{}, 1), done: make(chan struct{}), cells: make(map[string]*cell),
		shares: make(map[string]*sharing), slots: make(map[string]*slotting), watched: never, heardTo: -never,
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	go s.loop()
	return s, nil
}

// Node returns the name under which the store knows this process.
func (s *Syncer) Node() Node { return s.node }

// now is the time since base: by the monotonic clock, and whatever the wall clock went ahead
// of it, as in a machine that was suspended. So leases only end earlier by it, whatever is
// done to the clocks: time that was taken for passed stays so when the wall clock is set
// back, else what was granted meanwhile would outlive its end; and each step ahead counts,
// also one of a clock that was set back before. The caller holds mu: where the wall clock is,
// and what it went ahead, change together.
func (s *Syncer) now() int64 {
	t := time.Now()
	wall := t.UnixNano() - s.base.UnixNano() - int64(t.Sub(s.base))
	if s.step != nil {
		wall += int64(s.step())
	}
	if d := wall - s.wall; d > unread || d < -unread {
		s.wall = wall
		s.ahead += max(0, d)
	}
	return s.since(t)
}

// unread is how far the clocks move apart before it counts, in all since it did last: time.Now
// does not read both in the same moment, and what that makes would add up.
const unread = int64(time.Millisecond)

// since is t, a time of this process, by the clock of now. The caller holds mu.
func (s *Syncer) since(t time.Time) int64 { return int64(t.Sub(s.base)) + s.ahead }

// steady is the time since base by the monotonic clock alone: that of cooldowns, which must
// not end early, as leases may. at is when it was, or will be, a time.
func (s *Syncer) steady() int64 { return s.at(time.Now()) }

func (s *Syncer) at(t time.Time) int64 { return int64(t.Sub(s.base)) }

// Close gives back what was granted, as far as the store takes it within a second,
// and returns when nothing of the Syncer is left. Shares of a closed Syncer let
// nothing pass that is not granted. It may be called again.
func (s *Syncer) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	waiting := s.everybody() // for an answer that does not come now
	s.mu.Unlock()
	if first {
		s.stop()
		for _, wake := range waiting {
			wake()
		}
	}
	<-s.done
	s.work.Wait()
	if first {
		if s.watch != nil {
			s.watch()
		}
		s.leave()
	}
	return nil
}

// leave says good-bye under every key, once, with all that there is to say: what does not
// fit into an item goes before it in items of its own.
func (s *Syncer) leave() {
	s.mu.Lock()
	var rounds [][]Item
	for _, c := range s.cells {
		if !c.told {
			continue
		}
		now := s.now()
		c.drop(now)
		if c.pending != nil { // charged, or told, twice, perhaps: the safe side
			c.unsaid(now)
		}
		returned, debt := c.give(), c.debt
		for round, more := 0, true; more; round++ {
			s.seq++
			it := Item{Key: c.key, Seq: s.seq, Epoch: c.epoch, Seen: c.seen}
			if c.member != nil {
				c.member.say(&it)
			}
			if more = c.member != nil && c.member.toSay(); !more {
				it.Returned, it.Debt, it.Bye = returned, min(debt, 1e9), true
			}
			if round == len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[round] = append(rounds[round], it)
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), min(time.Second, s.cfg.Timeout))
	defer cancel()
	for _, items := range rounds {
		for some := range slices.Chunk(items, MaxItems) {
			s.cfg.Store.Exchange(ctx, s.node, some) // what it is not told it forgets by itself
		}
	}
}

// loop begins the exchanges that are due.
func (s *Syncer) loop() {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s.listen()
		stir := s.rouse()
		s.attend()
		now, next := s.begin()
		timer.Stop()
		if next = min(next, stir); next != never {
			timer.Reset(time.Duration(max(0, next-now)))
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
	}
}

const never = int64(1<<63 - 1)

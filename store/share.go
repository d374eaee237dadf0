package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// ShareConfig says what a Share shares.
type ShareConfig struct {
	// Name is the vendor's, the same in all processes. Required.
	Name string

	// Per says whose requests share the limits, as in governor.Limit.
	Per throttle.Level

	// Limits are charged together, all or none, with their defaults filled in.
	// Without any, everything passes but in a cooldown of the host, and while another
	// process makes the probe after it; and but before the store has said whether there
	// is one, or has not answered.
	Limits []Limit

	// Version is to be raised with every change of Limits, so that it can be told
	// which processes have the new ones: the largest that any process has said is in
	// force. Other Limits of the same Version are not, which the Logger is told once.
	// 0 means 1.
	Version uint64
}

// Share is a limit that this process shares with others: a limiter.Limiter for a
// governor's Limits, which answers at once from what its Syncer has fetched.
//
// The envelope is that of the Limits' Kinds, for all processes together and by the
// vendor's clock, whatever happens to processes, store, network and clocks, but for
// Outage Open: of permits taken when Wait has just said 0. A process that is stopped
// between that and the sending of its call sends it later; nothing here can know.
//
// Wait and Take with a permit at hand cost some 100 ns each and allocate nothing.
// When there is none, Wait returns how long the store has said it will take at
// least, or limiter.Unsure when it has not said yet, and the owner hears by OnChange.
//
// A Share has one owner, as every limiter. Shares of one Name and level in a process use
// the same permits, each under its own owner's lock: a Share is a limiter.Claimer, and
// with another one beside it Take may put the limit into debt where Claim does not.
//
// Under the keys of a governor's Host it also keeps to the cooldown of the host: no
// permits in it, and then those of one process, for one call, until the vendor has
// accepted that, or it has run for 5 s, or for half of the store's TTL if that is less.
type Share struct {
	*sharing
	owner
}

var (
	_ limiter.Claimer = (*Share)(nil)
	_ limiter.Dated   = (*Share)(nil)
)

// sharing is what the Shares of one Name and level in this process have together.
// Syncer.mu guards what may change.
type sharing struct {
	s       *Syncer
	id      string // in Syncer.shares
	name    string
	per     throttle.Level
	asked   []Limit // as configured
	limits  []Limit // what the store is to grant
	version uint64
	own     []Limit // what this process may use without it, while limits are in force
	keys    map[string]*cell
	warned  bool // it was logged that other limits are in force
	far     bool // it was logged that permits end on their way
	owners
}

// Share returns a Share. The error names the field that is wrong.
func (s *Syncer) Share(cfg ShareConfig) (*Share, error) {
	if cfg.Name == "" {
		return nil, fmt.Errorf("store: ShareConfig.Name is empty, want a name")
	}
	if cfg.Per > throttle.Bucket {
		return nil, fmt.Errorf("store: ShareConfig.Per is %v, want Host, Selector, Tenant or Bucket", cfg.Per)
	}
	if err := CheckLimits(cfg.Limits); err != nil {
		return nil, fmt.Errorf("store: ShareConfig.Limits: %w", err)
	}
	sh := &sharing{
		s: s, id: cfg.Per.String() + ":" + cfg.Name, name: cfg.Name, per: cfg.Per, version: max(1, cfg.Version),
		asked: slices.Clone(cfg.Limits), limits: slices.Clone(cfg.Limits), keys: make(map[string]*cell),
	}
	if s.cfg.Outage == SafeShare {
		if err := sh.divide(s.cfg.Part, s.cfg.Nodes); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch old := s.shares[sh.id]; {
	case old == nil:
		s.shares[sh.id] = sh
	case old.version == sh.version && !slices.Equal(old.asked, sh.asked):
		return nil, fmt.Errorf("store: ShareConfig.Limits of %s, %v, are other ones than this process has of Version %d already", cfg.Name, cfg.Limits, sh.version)
	default:
		if sh.version > old.version {
			old.version, old.asked, old.limits, old.own, old.warned = sh.version, sh.asked, sh.limits, sh.own, false
			for _, c := range old.keys {
				if len(c.quota) == 0 { // it would go by none until the store has heard of them
					c.quota = old.limits
				}
				c.part(time.Now())
				c.hinted, c.behind = true, true
				s.plan(c, s.now())
			}
		}
	}
	s.shares[sh.id].refs++
	return &Share{sharing: s.shares[sh.id]}, nil
}

// Close says that the Share is not used any more: OnChange's function is not called
// again, but for a call that is under way. It must be called once.
func (sh *Share) Close() {
	s := sh.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drop(&sh.owners, &sh.owner); sh.refs == 0 && s.shares[sh.id] == sh.sharing {
		delete(s.shares, sh.id) // what it holds goes back when it has been idle
	}
	for _, c := range sh.keys {
		if c.need > 0 || c.unsure { // it may be of this one alone
			c.asksAgain()
		}
	}
}

// divide divides the limits into what the store grants and what each process has. Of a
// Bucket that is a part of Burst, too, of which at least half is left.
func (sh *sharing) divide(part float64, nodes int) error {
	limits := slices.Clone(sh.asked)
	var parts []Limit
	for i := range limits {
		l := limits[i].Fill()
		own := l
		own.Quota, own.Burst = int64(part*float64(l.Quota)/float64(nodes)), 0
		if l.Quota -= own.Quota * int64(nodes); l.Quota < 1 {
			return fmt.Errorf("store: SyncerConfig.Part leaves nothing of ShareConfig.Limits[%d].Quota, %d", i, limits[i].Quota)
		}
		if l.Kind == Bucket {
			own.Burst = min(own.Quota, max(1, int64(part*float64(l.Burst)/float64(nodes))))
			l.Burst -= own.Burst * int64(nodes)
			l.Burst = min(l.Burst, l.Quota)
		}
		if own.Quota == 0 || l.Kind == Bucket && 2*l.Burst < limits[i].Fill().Burst { // of one limit nothing: then none of all
			return nil
		}
		limits[i] = l
		parts = append(parts, own)
	}
	sh.limits, sh.own = limits, parts
	return nil
}

// spent returns a limiter by which one process uses all of l, which is a part, and of which
// everything is used at now.
func (l Limit) spent(now time.Time) (limiter.Counter, error) {
	margin := max(1, l.Transit)
	if l.Kind != Bucket || l.Burst == l.Quota {
		c, err := limiter.NewQuota(limiter.QuotaConfig{Limit: int(l.Quota), Per: l.Per, Margin: margin, MaxKeys: 1})
		if err == nil {
			c.Drain(now, "")
		}
		return c, err
	}
	rate := float64(l.Quota-l.Burst) / (l.Per + margin).Seconds()
	c, err := limiter.NewBucket(limiter.BucketConfig{Rate: rate, Burst: int(l.Burst), MaxKeys: 1})
	if err == nil {
		c.Take(now, "", int(l.Quota)) // a debt that takes Per to pay
	}
	return c, err
}

// cell returns that of key, nil when there is no room. The caller holds mu.
func (sh *sharing) cell(key string, now time.Time) *cell {
	c := sh.keys[key]
	if c != nil || len(sh.keys) >= sh.s.cfg.MaxKeys && !sh.s.makeRoom(sh.keys) {
		return c
	}
	c = sh.s.cell(KeyFor(sh.name, throttle.Scope{Level: sh.per, Key: key}.String()))
	c.share, c.quota, c.name = sh, sh.limits, key
	c.part(now)
	sh.keys[key] = c
	return c
}

// makeRoom forgets one of keys of which nothing is in use, and reports whether it has found one:
// among a few, since it is asked for each call. Who waits for its permits until he is woken, if
// he has not gone, is woken, and asks again, before it is forgotten. The caller holds mu.
func (s *Syncer) makeRoom(keys map[string]*cell) bool {
	now, few := s.now(), 16
	for _, c := range keys { // begins anywhere
		if few--; few < 0 {
			break
		}
		switch {
		case !c.spared(now):
		case c.unsure:
			c.asksAgain()
		default:
			s.forget(c)
			return true
		}
	}
	return false
}

// spared reports whether nothing is lost with c. Who waits for its permits, if he has not gone,
// was told until when, and asks again. Nobody knows what became of a pending item: what comes
// for the key after it has a larger Seq, so that it is executed before that or not at all; a
// grant is charged and unused, and there is no exchange under way that could bring it. Slots
// that the store still takes for used here, as it does when it does not answer, are free when
// the next item for the key says so, or after its TTL.
func (c *cell) spared(now int64) bool {
	if c.busy || c.member != nil || now-c.asked < idle {
		return false
	}
	if c.slots != nil {
		c.prune(now)
		return c.inUse == 0 && len(c.claims) == 0 && (c.held == 0 || c.cutOff())
	}
	if it := c.pending; it != nil && (it.Debt > 0 || it.Probe != ProbeNothing) {
		return false
	}
	return !c.partless() && c.credit == 0 && c.debt == 0 && c.open == 0 && !c.passed && !c.frozen(now)
}

// part gives c its part anew, or none if other limits are in force, from which the store
// keeps nothing back for it. It begins used: an earlier process may have used it, and of
// what was in force before, all. The caller holds mu.
func (c *cell) part(now time.Time) {
	c.own = nil
	if !slices.Equal(c.quota, c.share.limits) {
		return
	}
	for _, l := range c.share.own {
		own, err := l.spent(now)
		if err != nil { // cannot be: l is within what a limiter takes
			c.own = nil
			return
		}
		c.own = append(c.own, own)
	}
}

// cell returns that of a key of the store, a new one if there is none. The caller
// holds mu.
func (s *Syncer) cell(key string) *cell {
	c := s.cells[key]
	if c == nil {
		c = &cell{s: s, key: key, since: time.Now()}
		s.cells[key] = c
		s.plan(c, s.now()+idle) // whatever becomes of it, it is to be forgotten some time
	}
	return c
}

// forget drops a cell that nobody uses.
func (s *Syncer) forget(c *cell) {
	if s.cells[c.key] == c {
		delete(s.cells, c.key)
	}
	s.due.remove(c)
	if c.share != nil && c.share.keys[c.name] == c {
		delete(c.share.keys, c.name)
	}
	if c.slots != nil && c.slots.keys[c.name] == c {
		delete(c.slots.keys, c.name)
	}
}

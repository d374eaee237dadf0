package dashboard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

const (
	topLanes     = 20
	topCooldowns = 50
	glance       = 3  // cooldowns of a Summary
	sparkPoints  = 60 // and seconds of its rate
	ratePoints   = 5  // seconds that Summary.Rate is over
)

// overview is what this process has to say of itself.
func (d *Dashboard) overview() Overview {
	d.mu.Lock()
	all := d.entries
	d.mu.Unlock()
	o := Overview{Process: d.cfg.Process, Time: d.now(), Governors: make([]Summary, 0, len(all))}
	for _, e := range all {
		s := d.summary(e, o.Time, glance)
		o.Governors = append(o.Governors, s)
	}
	return o
}

// summary says how e is at a glance, with its worst cooldowns.
func (d *Dashboard) summary(e *entry, now time.Time, most int) Summary {
	e.mu.Lock()
	defer e.mu.Unlock()
	return d.summaryLocked(e, now, most)
}

func (d *Dashboard) summaryLocked(e *entry, now time.Time, most int) Summary {
	st := &e.stats
	s := Summary{
		ID: e.id, Name: d.texts.clean(e.handle.Name()), Process: d.cfg.Process, State: state(st),
		Queued: st.Queued, MaxQueue: st.MaxQueue, InFlight: st.InFlight, Workers: st.Workers,
		Quota: quota(st), Started: st.Started, Succeeded: st.Succeeded, Limited: st.Limited, Failed: st.Failed, Episodes: st.Episodes,
		CallP50: ms(st.RecentCall.P50), CallP99: ms(st.RecentCall.P99), WaitP99: ms(st.RecentWait.P99), Observe: st.Observe,
		Cooling: st.CooldownCount, Cooldowns: d.cooldownsLocked(e, now, most),
	}
	if b := st.Breaker; b != nil {
		s.Breaker, s.BreakerRefuses = b.State.String(), b.Refusing
		if b.Refusing {
			if s.BreakerLeft, s.BreakerWhy = ms(b.Until.Sub(now)), e.why; !e.opened.IsZero() {
				s.BreakerLength = ms(b.Until.Sub(e.opened))
			}
		}
	}
	var span, started float64
	n := e.points.len()
	for i := max(0, n-sparkPoints); i < n; i++ {
		p := e.points.at(i)
		s.Spark = append(s.Spark, round(p.perSecond(p.started)))
		s.Refusals += uint64(p.errs[0])
		if i >= n-ratePoints {
			span += float64(p.span)
			started += float64(p.started)
		}
	}
	if span > 0 {
		s.Rate = float64(round(started * 1000 / span))
	}
	for i := range n {
		if p := e.points.at(i); p.cooling {
			s.Cooled += float64(p.span)
		}
	}
	return s
}

func state(s *governor.Stats) string {
	partly := false
	for _, c := range s.Cooldowns {
		if c.Scope.Level != throttle.Host {
			partly = true
		}
	}
	host := ""
	if i := slices.IndexFunc(s.Cooldowns, func(c governor.CooldownStats) bool { return c.Scope.Level == throttle.Host }); i >= 0 {
		host = s.Cooldowns[i].Phase
	}
	switch {
	case s.Closed:
		return "closed"
	case s.Paused:
		return "paused"
	case s.Breaker != nil && s.Breaker.Refusing:
		return "breaker"
	case host != "":
		return host
	case partly:
		return "partly"
	case s.Queued > 0 || s.InFlight > 0:
		return "busy"
	}
	return "idle"
}

// cooldownsLocked are those that end last, at most so many. The caller holds e.mu.
func (d *Dashboard) cooldownsLocked(e *entry, now time.Time, most int) []Cooldown {
	all := e.stats.Cooldowns
	if len(all) > most || len(all) > 1 {
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(a, b governor.CooldownStats) int {
			return cmp.Or(cmp.Compare(rank(a.Phase), rank(b.Phase)), cmp.Compare(a.Scope.Level, b.Scope.Level), b.Until.Compare(a.Until))
		})
		all = all[:min(len(all), most)]
	}
	var told []Cooldown
	for _, c := range all {
		scope, source := d.texts.clean(c.Scope.String()), d.texts.clean(c.Signal.Source)
		if source == "" { // as an adapter of one method leaves it
			source = e.journal.said(scope)
		}
		told = append(told, Cooldown{
			ID: d.nameOf(c.Scope), Scope: scope, Phase: c.Phase, Left: ms(c.Until.Sub(now)),
			Length: ms(c.Signal.Delay), Until: c.Until, Kind: c.Signal.Kind.String(), Source: source,
		})
	}
	return told
}

func rank(phase string) int { return slices.Index([]string{"cooling", "probing", "ramping"}, phase) }

// nameOf names a scope to a browser, which may be told only part of its text.
func (d *Dashboard) nameOf(sc throttle.Scope) string {
	sum := sha256.Sum256(append(d.keys[:], sc.String()...))
	return hex.EncodeToString(sum[:8])
}

// detail says all there is of e, of history and events what came after a sample.
func (d *Dashboard) detail(e *entry, after uint64) Detail {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Read under e.mu, in the same critical section as the journal: see noted.
	tick := d.ticked()
	t := Detail{Time: d.now(), Cursor: d.cursor(tick), Stats: e.stats, LaneCount: e.stats.LaneCount}
	t.Summary = d.summaryLocked(e, t.Time, topCooldowns)
	t.Lanes, t.Tenants, t.TenantCount = d.lanes(e.stats.Lanes), d.tenants(e.stats.Tenants), e.stats.TenantCount
	t.Limits = d.limits(e.stats.Limits, t.Time)
	t.Stats.Lanes, t.Stats.Tenants, t.Stats.Cooldowns, t.Stats.Limits = nil, nil, nil, nil
	t.Stats.Name = t.Name
	if b := e.stats.Breaker; b != nil {
		own := *b
		own.Answer, own.Cause = d.texts.clean(b.Answer), d.texts.clean(b.Cause)
		t.Stats.Breaker = &own
	}
	t.Errors = e.errorsLocked()
	t.History = e.historyLocked(after)
	t.History.Span = ms(d.cfg.History)
	t.Events = e.journal.since(after)
	return t
}

func (d *Dashboard) lanes(all []governor.LaneStats) []governor.LaneStats {
	all = slices.Clone(all[:min(len(all), topLanes)])
	for i := range all {
		l := &all[i]
		l.Selector, l.Tenant, l.Bucket = d.texts.clean(l.Selector), d.texts.clean(l.Tenant), d.texts.clean(l.Bucket)
	}
	return all
}

func (d *Dashboard) tenants(all []governor.TenantStats) (told []Tenant) {
	for _, t := range all[:min(len(all), topLanes)] {
		told = append(told, Tenant{d.texts.clean(t.Tenant), t.Waiting, t.Lanes})
	}
	return told
}

// limits are a row for each that the host has, and for the keys of the others.
func (d *Dashboard) limits(all []governor.LimitStats, now time.Time) (told []Limit) {
	for _, l := range all {
		row := Limit{Per: l.Per.String(), Unit: d.texts.clean(l.Unit)}
		if l.Per == throttle.Host || len(l.Keys) == 0 {
			told = append(told, row.with(l.Rate, l.Quota, now))
		}
		for _, k := range l.Keys {
			row.Key = d.texts.clean(k.Key)
			told = append(told, row.with(k.Rate, k.Quota, now))
		}
	}
	return told
}

func (l Limit) with(rate float64, q *throttle.Quota, now time.Time) Limit {
	if l.Limit, l.Remaining = -1, -1; !math.IsInf(rate, 0) { // of which JSON has none
		l.Rate = rate
	}
	if q != nil {
		l.Limit, l.Remaining, l.Window = q.Limit, q.Remaining, ms(q.Window)
		if !q.Reset.IsZero() {
			l.Left = ms(q.Reset.Sub(now))
		}
	}
	return l
}

func (e *entry) errorsLocked() []Errors {
	all := make([]Errors, len(errorKinds))
	for i, k := range errorKinds {
		all[i] = Errors{Kind: k.name, Total: k.of(&e.stats)}
	}
	for i := range e.points.len() {
		for k, n := range e.points.at(i).errs {
			all[k].Recent += uint64(n)
		}
	}
	for i, k := range errorKinds { // since the last point
		all[i].Recent += uint64(since(k.of(&e.base), k.of(&e.stats)))
	}
	return all
}

func (e *entry) historyLocked(after uint64) (h History) {
	for i := range e.points.len() {
		p := e.points.at(i)
		if p.tick <= after {
			continue
		}
		cooling := 0
		if p.cooling {
			cooling = 1
		}
		h.Time = append(h.Time, p.at)
		h.Rate = append(h.Rate, round(p.perSecond(p.started)))
		h.Done = append(h.Done, round(p.perSecond(p.done)))
		h.Limited = append(h.Limited, p.errs[0])
		h.Queued = append(h.Queued, p.queued)
		h.InFlight = append(h.InFlight, p.inFlight)
		h.Quota = append(h.Quota, round(float64(p.quota)))
		h.Cooling = append(h.Cooling, cooling)
	}
	return h
}

// round keeps JSON short.
func round(x float64) float32 {
	if x >= 100 {
		return float32(int64(x + 0.5))
	}
	return float32(int64(x*100+0.5)) / 100
}

// A cursor is the sample up to which a reader knows everything. Those of another
// Dashboard, or of a text that is none, are worth nothing: the reader gets it all.

func (d *Dashboard) cursor(tick uint64) string { return fmt.Sprintf("%s-%d", d.boot, tick) }

func (d *Dashboard) after(cursor string) uint64 {
	boot, n, _ := strings.Cut(cursor, "-")
	tick, err := strconv.ParseUint(n, 10, 64)
	if boot != d.boot || err != nil || tick > d.ticked() {
		return 0
	}
	return tick
}

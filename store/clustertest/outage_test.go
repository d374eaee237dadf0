package clustertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/faultproxy"
	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/store"
)

// What SafeShare keeps of a quota, of which each of so many replicas has as much.
const (
	sharedPart = 0.4
	sharers    = 4
	ownPart    = quota * 2 / 5 / sharers
)

// outage has all replicas lose their store: it is out of reach, then it does not answer,
// then it is killed, with what it knew if it is a Redis. Each of them has to say so, and go
// on as policy has it; and when the store is there again they have to be granted permits of
// it, without anybody's doing.
func outage(policy store.Outage) scenario {
	s := scenario{name: "lost store, " + policy.String(), own: true, rounds: len(losses)}
	s.template = replica{job: demanding(window()), Outage: policy, TTL: 2 * time.Second} // in 3 s it is lost that does not answer
	instead := func(o store.Outage) control {
		return control{name: o.String(), breaks: func(s *scenario) { s.template.Outage = o }}
	}
	silent := func(k judge.Kind) control {
		return control{name: "does not say " + string(k), breaks: func(s *scenario) { s.template.Silent = k }}
	}
	switch policy {
	case store.Closed:
		s.controls = []control{instead(store.Open), silent(judge.Lost)}
	case store.SafeShare:
		s.template.Part, s.template.Nodes = sharedPart, sharers
		s.controls = []control{instead(store.Closed), {name: "each has all", breaks: func(s *scenario) {
			s.template.Part, s.template.Nodes, s.template.Broken = 0.9, 1, lonely
		}}}
	default:
		s.controls = []control{instead(store.Closed), silent(judge.Unguarded)}
	}
	job, before := s.template.job, late.sum()
	s.judge = func(h *judge.History) error { return wrongWithout(policy, &job, h, late.sum()-before) }
	n := 0
	s.round = func(c *cluster) error {
		loss := losses[n%len(losses)]
		n++
		from := clock()
		loss.begin(c)
		err := c.allSay(judge.Lost, from)
		if err == nil {
			err = c.without(policy)
		}
		back := clock()
		loss.end(c)
		if err == nil {
			err = c.allSay(judge.Back, back)
		}
		if err == nil {
			err = c.allAreGranted(back)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", loss.name, err)
		}
		return err
	}
	rounds := s.rounds
	s.finally = func(c *cluster) error { return c.toldOf(policy, rounds) }
	return s
}

// losses are the ways to lose a store.
var losses = []struct {
	name       string
	begin, end func(*cluster)
}{
	{"out of reach", func(c *cluster) {
		c.fault(faultproxy.Fault{Refuse: true, DropRequests: true})
		c.cut()
	}, func(c *cluster) {
		c.fault(faultproxy.Fault{})
		c.cut()
	}},
	{"stopped", func(c *cluster) { c.server.signal(syscall.SIGSTOP) }, func(c *cluster) { c.server.signal(syscall.SIGCONT) }},
	{"killed", func(c *cluster) { c.server.kill() }, func(c *cluster) { c.server.restart() }},
}

func (s *server) signal(sig syscall.Signal) {
	if s.redis != nil {
		s.redis.Signal(sig)
		return
	}
	s.maria.Signal(sig)
}

func (s *server) kill() {
	if s.redis != nil {
		s.redis.Kill()
		return
	}
	s.maria.Kill()
}

// without returns when the replicas have done without the store what policy lets them, or
// could have done more.
func (c *cluster) without(policy store.Outage) error {
	time.Sleep(per + 2*transit) // what was granted has ended
	from := clock()
	switch policy {
	case store.SafeShare: // more than a part, and another: so it is renewed
		for _, m := range c.members {
			err := c.expect(m.name+" uses its part more than twice", func() bool { return c.written("vendor").Arrived(m.name, from, 1<<62) > 2*ownPart })
			if err != nil {
				return err
			}
		}
	case store.Open:
		return c.expect("more calls than the limit are made", func() bool {
			now := clock()
			return c.written("vendor").Arrived("", max(from, now-int64(per)), now) > quota
		})
	}
	time.Sleep(per)
	return nil
}

// wrongWithout is what is wrong with a history in which the store was lost now and then. Who
// stalls between the look at a clock and the taking of a permit notes that later than it
// counts: by stalled at most.
func wrongWithout(policy store.Outage, j *job, h *judge.History, stalled time.Duration) error {
	l := allowed(j.Limit)
	var errs []error
	if policy != store.Open {
		errs = append(errs, j.judge(h))
	}
	if policy == store.SafeShare { // the store is not to grant what others have
		l.Quota -= sharers * ownPart
		errs = append(errs, h.Grants(l))
	}
	said := make(map[string]int)
	for _, r := range h.Records {
		if r.Kind == judge.Unguarded {
			said[r.Node]++
		}
	}
	for node, at := range h.Unleased(prompt) {
		switch policy {
		case store.Closed:
			errs = append(errs, fmt.Errorf("%s began %d calls without a permit", node, len(at)))
		case store.SafeShare:
			for i := ownPart; i < len(at); i++ {
				if d := at[i] - at[i-ownPart]; d < int64(per-stalled) {
					errs = append(errs, fmt.Errorf("%s began %d calls of its part in %v, want at most %d in %v", node, ownPart+1, time.Duration(d), ownPart, per))
					break
				}
			}
		default:
			if said[node] < len(at) {
				errs = append(errs, fmt.Errorf("%s began %d calls without a permit, and said so of %d", node, len(at), said[node]))
			}
		}
	}
	return errors.Join(errs...)
}

// says returns what notes how the store is.
func (r *replica) says(log *judge.Writer) func(event.Event) {
	kinds := map[event.Kind]judge.Kind{event.StoreLost: judge.Lost, event.StoreBack: judge.Back, event.Unguarded: judge.Unguarded}
	return func(e event.Event) {
		kind := kinds[e.Kind]
		// That a store has lost what it knew is told, too, and what is so of one key alone.
		if kind == judge.Lost && e.Source != r.Outage.String() || kind == judge.Back && e.Source != "" || kind == r.Silent {
			return
		}
		log.Write(judge.Record{At: clock(), Kind: kind})
	}
}

// expect is await, but that what is broken has ten seconds.
func (c *cluster) expect(what string, done func() bool) error {
	end := time.Now().Add(10 * time.Second)
	gaveUp := false
	err := await(what, func() bool {
		if done() {
			return true
		}
		gaveUp = c.control && time.Now().After(end)
		return gaveUp
	})
	if gaveUp {
		err = fmt.Errorf("it does not come about that %s", what)
	}
	return err
}

// allSay waits until each replica has said kind from from on.
func (c *cluster) allSay(kind judge.Kind, from int64) error {
	return c.allNote("says "+string(kind), from, func(r judge.Record) bool { return r.Kind == kind })
}

// allAreGranted waits until each replica was granted permits that it asked for from from on.
func (c *cluster) allAreGranted(from int64) error {
	return c.allNote("is granted permits", from, func(r judge.Record) bool { return r.Kind == judge.Grant && r.Quota > 0 && r.Sent >= from })
}

func (c *cluster) allNote(what string, from int64, is func(judge.Record) bool) error {
	for _, m := range c.members {
		err := c.expect(m.name+" "+what, func() bool {
			for _, r := range c.written(m.name).Records {
				if r.At >= from && is(r) {
					return true
				}
			}
			return false
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// toldOf returns an error unless each replica has told of each change, by an event and by a
// line in its log: of at least so many losses, each followed by a return.
func (c *cluster) toldOf(policy store.Outage, losses int) error {
	for i := range c.born {
		lost, back := 0, 0
		for _, r := range c.written(name(i + 1)).Records {
			switch r.Kind {
			case judge.Lost:
				lost++
			case judge.Back:
				back++
			}
			if lost != back && lost != back+1 {
				return fmt.Errorf("%s says %s for the %dth time after %d losses", name(i+1), r.Kind, back, lost)
			}
		}
		text, err := os.ReadFile(filepath.Join(c.dir, name(i+1)+".log"))
		if err != nil {
			return err
		}
		source := policy.String()
		if strings.Contains(source, " ") {
			source = strconv.Quote(source)
		}
		lines, linesBack := 0, 0
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `msg="store lost"`) && strings.Contains(line, "source="+source+" ") {
				lines++
			} else if strings.Contains(line, `msg="store back"`) && !strings.Contains(line, "source=") {
				linesBack++
			}
		}
		if lost < losses || back != lost || lines != lost || linesBack != back {
			return fmt.Errorf("%s tells of %d losses and %d returns, in its log of %d and %d, want the same, at least %d", name(i+1), lost, back, lines, linesBack, losses)
		}
	}
	return nil
}

package clustertest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/store"
)

// soakResult is what a soak writes into the file that FLYBALL_CLUSTER_JSON names.
type soakResult struct {
	Store     string             `json:"store"`
	Seconds   float64            `json:"seconds"`
	Faults    map[string]int     `json:"faults"`
	Slowest   map[string]float64 `json:"slowest"` // by fault: seconds until all replicas made calls of all jobs again, at most
	Replicas  int                `json:"replicas"`
	SlotsBack float64            `json:"slotsBack"` // seconds until the slots of a killed one were used by others, at most
	Jobs      []*soakJob         `json:"jobs"`
	Processes []*soakProcess     `json:"processes"` // that were there at the end
	Memory    []sample           `json:"memory"`    // of the replica that is never killed, each time all rested
	RSSSlope  float64            `json:"rssSlope"`  // of it, in MiB per hour; of a short soak how it grows at first
	Errors    []string           `json:"errors"`    // what was broken; none, if all is well
}

// soakJob is what was seen of a job.
type soakJob struct {
	Name   string       `json:"name"`
	Limit  *store.Limit `json:"limit,omitempty"`
	Slots  int          `json:"slots,omitempty"`
	Calls  int64        `json:"calls"`
	Late   int          `json:"late"` // calls that took longer to the vendor than it may take
	Vendor judge.Tally  `json:"vendor"`
}

// soakProcess is what a process used when it had nothing to do: early, and at the end.
type soakProcess struct {
	Name  string `json:"name"`
	First usage  `json:"first"`
	Last  usage  `json:"last"`
}

// TestSoak has four replicas share limits of each kind, and slots, for FLYBALL_CLUSTER_SOAK,
// 10s by default, with a fault every two seconds or so: after each, all of them have to
// make calls of all jobs again. Every minute or more all rest, for what they did to be judged,
// and what they use to be measured.
func TestSoak(t *testing.T) {
	length := 10 * time.Second
	if said := os.Getenv("FLYBALL_CLUSTER_SOAK"); said != "" {
		var err error
		if length, err = time.ParseDuration(said); err != nil {
			t.Fatalf("FLYBALL_CLUSTER_SOAK: %v", err)
		}
	}
	results := make([]*soakResult, 2)
	t.Run("both", func(t *testing.T) {
		for i, kind := range []string{"redis", "mysql"} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				results[i] = newSoak(t, kind, "").run(length)
				for _, e := range results[i].Errors {
					t.Error(e)
				}
			})
		}
		t.Run("control, alone", func(t *testing.T) { // of each job's judge
			t.Parallel()
			s := newSoak(t, "redis", alone)
			for _, v := range s.vendors {
				if err := await(v.job.host()+" is caught", func() bool { return v.job.judge(s.historyOf(v.job)) != nil }); err != nil {
					t.Error(err)
				}
			}
		})
	})
	if name := os.Getenv("FLYBALL_CLUSTER_JSON"); name != "" {
		text, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(name, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// soak is one under way.
type soak struct {
	*cluster
	begin  time.Time
	result soakResult
	first  map[string]usage // what each replica used when it was new
}

const soakTTL = 4 * time.Second // of which a tenth is for what prompt and hold are

func newSoak(t *testing.T, kind, broken string) *soak {
	const soon = 10 * time.Millisecond
	// Permits of these last for so long at most, which has to be enough for a round trip.
	// The longer, the longer a store that has lost everything grants none of them.
	lasts := 200 * time.Millisecond
	if kind == "mysql" {
		lasts *= 2
	}
	template := replica{TTL: soakTTL, Broken: broken, job: job{Limit: window(), Every: 64 * time.Millisecond, Cancel: true}, Beside: []job{
		{Job: "sliding", Every: 128 * time.Millisecond, Cancel: true,
			Limit: &store.Limit{Kind: store.Sliding, Quota: int64(lasts / (2 * time.Millisecond)), Per: store.Segments * lasts, Transit: soon}},
		{Job: "bucket", Every: 128 * time.Millisecond, Cancel: true,
			Limit: &store.Limit{Kind: store.Bucket, Quota: 60, Per: 4 * time.Second, Lease: lasts, Transit: soon}},
		{Job: "slots", Every: 32 * time.Millisecond, Cancel: true, Slots: slots},
	}}
	s := &soak{first: make(map[string]usage), result: soakResult{Store: kind, Faults: make(map[string]int), Slowest: make(map[string]float64), Errors: []string{}}}
	s.cluster = begin(t, ownServer(t, kind), 4, template, nil, judge.Config{MaxPause: 2 * time.Second}) // each call until all know of it doubles it
	for _, v := range s.vendors {
		s.result.Jobs = append(s.result.Jobs, &soakJob{Name: v.job.host(), Limit: v.job.Limit, Slots: v.job.Slots})
	}
	return s
}

// run is the soak.
func (s *soak) run(length time.Duration) *soakResult {
	s.begin = time.Now()
	s.wrong(s.allCall())
	for _, m := range s.members {
		s.wrong(s.usageOf(m))
	}
	s.sample(s.first[s.members[0].name])
	pause := min(max(length/12, time.Minute), 5*time.Minute)
	for end := s.begin.Add(length); ; s.goOn() {
		s.stretch(end, time.Now().Add(pause))
		if !s.well() {
			break
		}
		s.rest()
		if !s.well() || time.Now().After(end) {
			break
		}
	}
	if s.well() { // it ends in the midst of things
		s.tell("wake")
		time.Sleep(per / 2)
	}
	_, err := s.end()
	s.wrong(err)
	s.judge()
	r := &s.result
	r.RSSSlope, err = growth(r.Memory, length)
	s.wrong(err)
	r.Seconds, r.Replicas = time.Since(s.begin).Seconds(), s.born
	for i, v := range s.vendors {
		r.Jobs[i].Vendor = v.Tally()
	}
	text, _ := json.Marshal(r)
	s.t.Logf("%s", text)
	return r
}

// sample notes the memory of the replica that is never killed.
func (s *soak) sample(u usage) {
	s.result.Memory = append(s.result.Memory, sample{time.Since(s.begin).Hours(), float64(u.RSS), float64(u.Heap)})
}

// wrong notes err, if it is one.
func (s *soak) wrong(err error) {
	if err != nil {
		s.result.Errors = append(s.result.Errors, err.Error())
	}
}

func (s *soak) well() bool { return len(s.result.Errors) == 0 }

// usageOf has m rest, notes what it uses then, and wakes it.
func (s *soak) usageOf(m *member) error {
	u, err := m.rest(nil)
	if err != nil {
		return err
	}
	s.first[m.name] = u
	_, err = io.WriteString(m.stdin, "wake\n")
	return err
}

// rest has m do nothing, and returns what it uses when it is no more than it was at first,
// or after a while.
func (m *member) rest(first *usage) (u usage, err error) {
	if _, err := m.ask("rest"); err != nil {
		return u, err
	}
	for end := time.Now().Add(patience / 4); ; time.Sleep(100 * time.Millisecond) {
		answer, err := m.ask("usage")
		if err == nil {
			err = json.Unmarshal([]byte(answer), &u)
		}
		if err != nil || first == nil || first.grows(u) == nil || time.Now().After(end) {
			return u, err
		}
	}
}

// rest has all replicas rest, and compares what each uses with what it used at first.
func (s *soak) rest() {
	s.result.Processes = nil
	for i, m := range s.members {
		first := s.first[m.name]
		u, err := m.rest(&first)
		if err == nil {
			err = first.grows(u)
		}
		if err != nil {
			s.wrong(fmt.Errorf("%s, which rests: %w", m.name, err))
		}
		s.result.Processes = append(s.result.Processes, &soakProcess{m.name, first, u})
		if i == 0 {
			s.sample(u)
		}
	}
}

// goOn judges what replicas that rest have done, forgets it, and wakes them: so much later
// that no window has calls of before and after.
func (s *soak) goOn() {
	rested, longest := time.Now(), per
	s.judge()
	for _, v := range s.vendors {
		if v.job.Limit != nil {
			longest = max(longest, v.job.Limit.Per)
		}
	}
	time.Sleep(time.Until(rested.Add(longest)))
	s.forget()
	s.tell("wake")
}

// judge judges what was written down and not forgotten.
func (s *soak) judge() {
	for i, v := range s.vendors {
		h := s.historyOf(v.job)
		for _, err := range []error{v.job.judge(h), h.Ledger(s.alive()...)} {
			if err != nil {
				s.wrong(fmt.Errorf("%s: %w", v.job.host(), err))
			}
		}
		j, transit := s.result.Jobs[i], prompt
		if v.job.Limit != nil {
			transit = v.job.Limit.Fill().Transit
		}
		j.Calls += h.Arrived("", 0, 1<<62)
		j.Late += h.Late(transit)
	}
}

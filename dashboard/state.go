package dashboard

import (
	"time"

	"github.com/flyball-go/flyball/governor"
)

// Overview is what state.json answers: the governors of this process and, unless it
// is asked with ?own, of its peers. In JSON times are RFC 3339, and durations, but
// those in Stats, milliseconds.
type Overview struct {
	Process   string    `json:"process"`
	Time      time.Time `json:"time"`
	Actions   bool      `json:"actions"` // Config.Guard allows them to who asks
	Governors []Summary `json:"governors"`
	Peers     []Peer    `json:"peers,omitempty"`
}

// Peer is another process.
type Peer struct {
	Number  int    `json:"number"` // in Config.Peers, from 1
	Process string `json:"process"`
	Up      bool   `json:"up"`
	Problem string `json:"problem,omitempty"` // why it is not
}

// Summary is a governor at a glance.
type Summary struct {
	ID      string `json:"id"`   // unique in its process
	Name    string `json:"name"` // Config.Name of the governor
	Process string `json:"process"`
	Peer    int    `json:"peer,omitempty"` // the number of its process, 0 for the one that answers

	// State is the worst that can be said: "closed", "paused", "breaker" (open),
	// "cooling" (the host), "probing" or "ramping" (the host, after that), "partly"
	// (narrower scopes cool, probe or ramp), "busy" or "idle".
	State string `json:"state"`

	Queued   int     `json:"queued"`
	MaxQueue int     `json:"max_queue"`
	InFlight int     `json:"in_flight"`
	Workers  int     `json:"workers"`
	Rate     float64 `json:"rate"`  // attempts per second, over the last 5 s
	Quota    float64 `json:"quota"` // permits per second, 0 when none is known

	Started   uint64 `json:"started"` // attempts
	Succeeded uint64 `json:"succeeded"`
	Limited   uint64 `json:"limited"` // attempts that the vendor refused
	Failed    uint64 `json:"failed"`
	Episodes  uint64 `json:"episodes"` // cooldowns begun

	Refusals  uint64     `json:"refusals"` // attempts that the vendor refused, over the last minute
	CallP50   float64    `json:"call_p50"` // over the last minutes: Stats.Recent
	CallP99   float64    `json:"call_p99"`
	WaitP99   float64    `json:"wait_p99"`
	Observe   bool       `json:"observe,omitempty"`
	Cooled    float64    `json:"cooled"`              // for how long of Config.History the host cooled
	Cooldowns []Cooldown `json:"cooldowns,omitempty"` // at most 3; those of a Detail at most 50
	Cooling   int        `json:"cooling"`             // how many scopes cool, probe or ramp

	Breaker        string  `json:"breaker,omitempty"` // a breaker.State; "" without one
	BreakerRefuses bool    `json:"breaker_refuses,omitempty"`
	BreakerLeft    float64 `json:"breaker_left,omitempty"`   // until it lets a call try; 0 when nobody knows
	BreakerLength  float64 `json:"breaker_length,omitempty"` // from when it opened until then
	BreakerWhy     string  `json:"breaker_why,omitempty"`    // what opened it

	Spark []float32 `json:"spark,omitempty"` // Rate of each of the last 60 s
}

// Cooldown is a scope that is paused, or on its way back.
type Cooldown struct {
	ID     string    `json:"id"` // names it in an action
	Scope  string    `json:"scope"`
	Phase  string    `json:"phase"`  // "cooling", "probing" or "ramping"
	Left   float64   `json:"left"`   // until it ends
	Length float64   `json:"length"` // as asked for; 0 when not known
	Until  time.Time `json:"until"`
	Kind   string    `json:"kind"`   // of the vendor's limit
	Source string    `json:"source"` // in its words; else those of the error that it came with
}

// Detail is what state.json?governor=ID answers. With &since= and the Cursor of an
// answer, History and Events have only what came after that.
type Detail struct {
	Summary
	Cursor  string    `json:"cursor"`
	Time    time.Time `json:"time"`
	Actions bool      `json:"actions"`

	// Stats is the governor's own, without its lists.
	Stats governor.Stats `json:"stats"`

	Lanes       []governor.LaneStats `json:"lanes"`      // the longest, at most 20
	LaneCount   int                  `json:"lane_count"` // all
	Tenants     []Tenant             `json:"tenants"`    // those with most waiting, at most 20
	TenantCount int                  `json:"tenant_count"`
	Limits      []Limit              `json:"limits"`
	Errors      []Errors             `json:"errors"`

	History History `json:"history"`
	Events  []Event `json:"events"`
}

// Tenant is a tenant of whom something waits.
type Tenant struct {
	Name    string `json:"name"`
	Waiting int    `json:"waiting"`
	Lanes   int    `json:"lanes"`
}

// Limit is a limit of a governor: of all requests, or of those with one key, which is
// a selector, a tenant or a bucket.
type Limit struct {
	Per       string  `json:"per"`
	Key       string  `json:"key,omitempty"`
	Unit      string  `json:"unit,omitempty"`   // of what it counts; "" for calls
	Rate      float64 `json:"rate"`             // permits per second; 0 when not known
	Limit     int64   `json:"limit"`            // in a window; -1 when not known
	Remaining int64   `json:"remaining"`        // of it; -1 when not known
	Window    float64 `json:"window,omitempty"` // 0 when not known
	Left      float64 `json:"left,omitempty"`   // of the window, where it ends at one time
}

// Errors counts what went wrong in one way: "limited" (attempts that the vendor
// refused), "failed" (requests), "gave_up", "dropped" (that ended in the queue),
// "refused" (at the door), "overflow", "connect" (connections that did not open),
// "panics" (of closures, adapters and hooks), "stuck".
type Errors struct {
	Kind   string `json:"kind"`
	Total  uint64 `json:"total"`  // since the governor was made
	Recent uint64 `json:"recent"` // over Config.History
}

// History is a governor's last minutes, second by second, column by column.
type History struct {
	Span     float64   `json:"span"` // Config.History, in ms
	Time     []int64   `json:"time"` // in ms since 1970
	Rate     []float32 `json:"rate"` // attempts per second
	Done     []float32 `json:"done"` // requests that succeeded, per second
	Limited  []uint32  `json:"limited"`
	Queued   []uint32  `json:"queued"`
	InFlight []uint32  `json:"in_flight"`
	Quota    []float32 `json:"quota"`
	Cooling  []int     `json:"cooling"` // 1 while the host cooled
}

// Event is one of the last 256 that matter to an operator, or several alike.
type Event struct {
	ID      uint64    `json:"id"` // by which a later answer with a higher Count replaces it
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Count   int       `json:"count"` // how many alike within 10 s
	Request uint64    `json:"request,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Scope   string    `json:"scope,omitempty"`
	Delay   float64   `json:"delay,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Source  string    `json:"source,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// ms is a duration in milliseconds; 0 for one that is not known.
func ms(d time.Duration) float64 {
	if d < 0 {
		return 0
	}
	return float64(d.Microseconds()) / 1000
}

// Package judge decides, for tests with real processes, whether they kept what they
// promised together. A [Vendor] is what they call: one process with one monotonic
// clock, that counts arrivals, refuses what is too much, and asks for longer and
// longer pauses of who does not keep to them. A [History] is what the vendor and
// each process wrote down, a line of JSON for each event; its checks find the window
// that holds too many calls, the grant for which there was no room, the call that began
// in a pause, and the request that ended twice or never.
//
// A Vendor may be used by any number of goroutines at once, and must be closed; a
// History by one.
//
// It judges what can be seen from outside: what a store knew but did not say, it does
// not know.
package judge

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Limit is what the vendor allows.
type Limit struct {
	Quota int64         `json:"quota"`
	Per   time.Duration `json:"per"`

	// Aligned counts from one multiple of Per, in Unix time, to the next; otherwise
	// every half-open window of length Per counts.
	Aligned bool `json:"aligned"`
}

// Config says what a Vendor does. The zero value allows everything.
type Config struct {
	Limits []Limit

	// Slots is how many calls may be there at once. 0: any number.
	Slots int

	// Hold is how long a call takes.
	Hold time.Duration

	// MaxPause is what a pause grows to at most, which calls in it double. 0: any length.
	MaxPause time.Duration

	// Log gets a Record for each call. nil: none.
	Log io.Writer
}

// Vendor is an HTTP server that is called by GET /call?node=N&id=I, and answers 200,
// or 429 with a header Retry-After-Ms.
type Vendor struct {
	cfg  Config
	base time.Time // of its clock
	http *http.Server
	addr string
	done chan struct{}

	// mu guards what follows. The log is written under it, so that its order is
	// that of the arrivals.
	mu     sync.Mutex
	seen   [][]int64 // by limit, the arrivals that may still count, oldest first
	now    int       // calls that are there
	until  int64     // of the pause
	last   time.Duration
	pause  time.Duration // the next call is told to
	tally  Tally
	writer *Writer
}

// Tally is what a Vendor has seen.
type Tally struct {
	Calls     int64 // that arrived
	Refused   int64 // since there were too many,
	Paused    int64 // or since they came in a pause
	Escalated int64 // pauses made longer by calls in them
	Crowded   int64 // calls beyond Slots
	Most      int   // calls at once
}

// Start starts a Vendor on a free port of the loopback interface.
func Start(cfg Config) (*Vendor, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	v := &Vendor{cfg: cfg, base: time.Now(), addr: l.Addr().String(), done: make(chan struct{}), seen: make([][]int64, len(cfg.Limits))}
	if cfg.Log != nil {
		v.writer = NewWriter(cfg.Log, "vendor")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /call", v.call)
	v.http = &http.Server{Handler: mux}
	go func() {
		defer close(v.done)
		v.http.Serve(l) // until Close
	}()
	return v, nil
}

// URL is what to GET, but for the query.
func (v *Vendor) URL() string { return "http://" + v.addr + "/call" }

// Pause has the vendor refuse the next call, and ask it for a pause of d, which
// begins then. Calls that come in it make it twice as long, as Google Ads does:
// those that were on their way at its begin, too.
func (v *Vendor) Pause(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pause = d
}

// Tally returns what the vendor has seen so far.
func (v *Vendor) Tally() Tally {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.tally
}

// Close ends the server and the calls that are there.
func (v *Vendor) Close() error {
	err := v.http.Close()
	<-v.done
	return err
}

// clock is Unix time by the monotonic clock.
func (v *Vendor) clock() int64 { return v.base.UnixNano() + int64(time.Since(v.base)) }

func (v *Vendor) call(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id, err := strconv.ParseInt(q.Get("id"), 10, 64)
	if err != nil {
		http.Error(w, "id is no number", http.StatusBadRequest)
		return
	}
	if retry := v.arrive(q.Get("node"), id); retry > 0 {
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(max(1, retry.Milliseconds()), 10))
		w.WriteHeader(http.StatusTooManyRequests)
		v.leave()
		return
	}
	defer v.leave()
	if v.cfg.Hold > 0 {
		timer := time.NewTimer(v.cfg.Hold)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done(): // the caller is gone, and with it the call
			return
		}
	}
	io.WriteString(w, "ok")
}

func (v *Vendor) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now--
}

// arrive counts a call, and returns how long to pause, if it is refused.
func (v *Vendor) arrive(node string, id int64) (retry time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.clock()
	v.tally.Calls++
	v.now++
	if v.tally.Most = max(v.tally.Most, v.now); v.cfg.Slots > 0 && v.now > v.cfg.Slots {
		v.tally.Crowded++
	}
	for i, l := range v.cfg.Limits {
		if over := v.count(i, l, now); over {
			v.tally.Refused++
			retry = max(retry, l.Per)
		}
	}
	switch {
	case now < v.until:
		v.tally.Paused++
		v.tally.Escalated++
		v.last *= 2
		if v.cfg.MaxPause > 0 {
			v.last = min(v.last, v.cfg.MaxPause)
		}
		v.until = max(v.until, now+int64(v.last))
		retry = max(retry, time.Duration(v.until-now))
	case v.pause > 0:
		v.last, v.until, v.pause = v.pause, now+int64(v.pause), 0
		retry = max(retry, v.last)
	}
	v.writer.write(Record{At: now, Node: node, Kind: Arrive, ID: id, Until: now + int64(retry)})
	return retry
}

// count adds an arrival to a limit's, and reports whether there are too many.
func (v *Vendor) count(i int, l Limit, now int64) bool {
	seen := append(v.seen[i], now)
	for len(seen) > 0 && !l.together(seen[0], now) {
		seen = seen[1:]
	}
	v.seen[i] = seen
	return int64(len(seen)) > l.Quota
}

// together reports whether a window holds both a and b, which is not before it.
func (l Limit) together(a, b int64) bool {
	if l.Aligned {
		return a/int64(l.Per) == b/int64(l.Per)
	}
	return b-a < int64(l.Per)
}

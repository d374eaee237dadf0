package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// A reader who takes longer than this for a message is dropped.
const patience = 5 * time.Second

// client is a stream. It holds nothing that waits for its reader: when woken it looks
// at what there is then.
type client struct {
	woken chan struct{} // of one
	rc    *http.ResponseController
}

// wake is called under Dashboard.mu.
func (c *client) wake() {
	select {
	case c.woken <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// cut ends a write that may be under way. Called under Dashboard.mu.
func (c *client) cut() {
	if c.rc != nil {
		c.rc.SetWriteDeadline(time.Now()) // an error means that it has none: see serveLive
	}
}

// begin counts a request that Close waits for, and c, unless it is nil, as one who
// looks. It reports false when it is too late for that, or they are too many.
func (d *Dashboard) begin(c *client) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || c != nil && len(d.clients) >= d.cfg.MaxClients {
		return false
	}
	if c != nil {
		d.clients[c] = struct{}{}
	}
	d.work.Add(1) // before Close waits: it sets closed first
	return true
}

func (d *Dashboard) end(c *client) {
	d.mu.Lock()
	delete(d.clients, c)
	d.mu.Unlock()
	d.work.Done()
}

// serveLive streams an Overview, or the Detail of a governor, at once and with each
// sample. The id of a message is its cursor: a browser that comes back says it in
// Last-Event-ID and gets of history and events what it missed.
//
// Each write has a deadline, which a ResponseWriter of net/http has. One that has none
// can keep a stream, of which there are MaxClients, and Close with it.
func (d *Dashboard) serveLive(w http.ResponseWriter, r *http.Request) {
	c := &client{woken: make(chan struct{}, 1), rc: http.NewResponseController(w)}
	if !d.begin(c) {
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusServiceUnavailable, "closed, or too many look already")
		return
	}
	defer d.end(c)
	q := r.URL.Query()
	peer, id, since := q.Get("peer"), q.Get("governor"), r.Header.Get("Last-Event-ID")
	if since == "" {
		since = q.Get("since")
	}
	if d.cfg.OnDemand {
		d.freshen()
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)() // Close need not wait for a peer
	r = r.WithContext(ctx)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // of proxies
	actions := d.allowed(r)
	c.wake()
	for first := true; ; first = false {
		select {
		case <-c.woken:
		case <-ctx.Done():
			return
		}
		m := message{first: first}
		if q.Has("governor") {
			m.event, m.id, m.data = d.liveDetail(r, actions, peer, id, &since)
		} else {
			m.event, m.data = "overview", d.liveOverview(actions)
		}
		if !d.write(w, c, m) {
			return
		}
	}
}

// liveOverview is the same for all who may do the same.
func (d *Dashboard) liveOverview(actions bool) []byte {
	d.mu.Lock()
	tick := d.tick
	k := &d.told[0]
	if actions {
		k = &d.told[1]
	}
	now := d.now()
	if k.json != nil && k.tick == tick && now.Sub(k.at) < soon {
		defer d.mu.Unlock()
		return k.json
	}
	d.mu.Unlock()
	o := d.overview()
	o.Actions = actions
	d.addPeers(&o)
	b := encode(o)
	d.mu.Lock()
	defer d.mu.Unlock()
	*k = told{tick, now, b}
	return b
}

// told is an overview, encoded, as of a sample. Its countdowns are as of a time.
type told struct {
	tick uint64
	at   time.Time
	json []byte
}

// liveDetail is what came after *since, and moves that on.
func (d *Dashboard) liveDetail(r *http.Request, actions bool, peer, id string, since *string) (event, cursor string, data []byte) {
	t, err := d.anyDetail(r, peer, id, *since)
	switch {
	case err != nil:
		return "down", "", encode(map[string]string{"problem": err.Error()})
	case t == nil:
		return "gone", "", []byte("{}")
	}
	t.Actions = t.Actions && actions
	*since = t.Cursor
	return "detail", t.Cursor, encode(t)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // no value of ours
		return []byte("{}")
	}
	return b
}

type message struct {
	event, id string
	data      []byte // one line
	first     bool
}

// write sends m, and reports whether the reader took it.
func (d *Dashboard) write(w http.ResponseWriter, c *client, m message) bool {
	// Under mu, so that the deadline that Close sets is the last one.
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return false
	}
	c.rc.SetWriteDeadline(time.Now().Add(patience)) // an error means that there is none
	d.mu.Unlock()
	if m.first {
		fmt.Fprint(w, "retry: 2000\n\n")
	}
	if m.id != "" {
		fmt.Fprintf(w, "id: %s\n", m.id)
	}
	fmt.Fprintf(w, "event: %s\ndata: ", m.event)
	w.Write(m.data)
	if _, err := w.Write([]byte("\n\n")); err != nil {
		return false
	}
	return c.rc.Flush() == nil
}

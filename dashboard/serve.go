package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed assets
var assets embed.FS

// payload is a file of the page.
type payload struct {
	kind, tag string
	bytes     []byte
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// payloads are the assets by path; the page itself is "".
func payloads() map[string]payload {
	files, err := assets.ReadDir("assets")
	if err != nil {
		panic(err) // they are part of the program
	}
	all := make(map[string]payload)
	for _, f := range files {
		b, err := assets.ReadFile("assets/" + f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(b)
		all[f.Name()] = payload{kinds[path.Ext(f.Name())], `"` + hex.EncodeToString(sum[:8]) + `"`, b}
	}
	all[""] = all["index.html"]
	return all
}

// policy allows a page nothing but its own files, and nobody to frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP answers with the page, its files, state.json, the stream live, and action.
// Paths are relative to where the page is: use http.StripPrefix.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	name := strings.TrimPrefix(r.URL.Path, "/")
	allow := "GET, HEAD"
	switch name {
	case "action":
		allow = http.MethodPost
	case "live":
		allow = http.MethodGet
	}
	if !slices.Contains(strings.Split(allow, ", "), r.Method) {
		h.Set("Allow", allow)
		fail(w, http.StatusMethodNotAllowed, "want "+allow)
		return
	}
	switch p, file := d.page[name]; {
	case file:
		h.Set("Content-Type", p.kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", p.tag)
		if r.Header.Get("If-None-Match") == p.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Length", strconv.Itoa(len(p.bytes)))
		w.Write(p.bytes) // nobody is left to be told
	case name == "state.json":
		d.serveState(w, r)
	case name == "live":
		d.serveLive(w, r)
	case name == "action":
		d.serveAction(w, r)
	default:
		fail(w, http.StatusNotFound, "no such page")
	}
}

func fail(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, why, code)
}

// serveState answers with an Overview, or with a Detail when a governor is named.
func (d *Dashboard) serveState(w http.ResponseWriter, r *http.Request) {
	if !d.begin(nil) {
		fail(w, http.StatusServiceUnavailable, "closed")
		return
	}
	defer d.work.Done()
	q := r.URL.Query()
	var answer any
	if !q.Has("governor") {
		answer = d.wholeOverview(r, q.Has("own"))
	} else {
		t, err := d.anyDetail(r, q.Get("peer"), q.Get("governor"), q.Get("since"))
		switch {
		case err != nil:
			fail(w, http.StatusBadGateway, "the peer: "+err.Error())
			return
		case t == nil:
			fail(w, http.StatusNotFound, "no such governor")
			return
		}
		answer = t
	}
	b, err := json.Marshal(answer)
	if err != nil {
		fail(w, http.StatusInternalServerError, "state is not JSON")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(b) // nobody is left to be told
}

// wholeOverview is what is asked for by itself, not by who looks all the time.
func (d *Dashboard) wholeOverview(r *http.Request, own bool) Overview {
	if d.cfg.OnDemand && !d.watched() {
		d.freshen()
	}
	o := d.overview()
	o.Actions = d.allowed(r)
	if !own {
		for _, p := range d.peers {
			if known, _ := p.view(o.Time); !known.Up {
				p.ask(d)
			}
		}
		d.addPeers(&o)
	}
	return o
}

func (d *Dashboard) addPeers(o *Overview) {
	for _, p := range d.peers {
		told, theirs := p.view(o.Time)
		o.Peers = append(o.Peers, told)
		o.Governors = append(o.Governors, theirs...)
	}
}

// anyDetail returns the detail of a governor, here or at a peer; nil if there is none.
func (d *Dashboard) anyDetail(r *http.Request, peer, id, since string) (*Detail, error) {
	if peer == "" || peer == "0" {
		e := d.find(id)
		if e == nil {
			return nil, nil
		}
		t := d.detail(e, d.after(since))
		t.Actions = d.allowed(r)
		return &t, nil
	}
	n, err := strconv.Atoi(peer)
	if err != nil || n < 1 || n > len(d.peers) {
		return nil, nil
	}
	return d.peers[n-1].detail(r.Context(), d, id, since)
}

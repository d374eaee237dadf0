package dashboard

import (
	"net/http"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// allowed reports whether r may act.
func (d *Dashboard) allowed(r *http.Request) bool { return d.cfg.Guard != nil && d.cfg.Guard(r) }

// serveAction does what a form of "do" (pause, resume, clear), "governor" (an ID of
// this process) and, to clear, "cooldown" (an ID, too) asks for, and answers 204. It
// answers 403 to a request of another site, and to one that the Guard does not allow.
func (d *Dashboard) serveAction(w http.ResponseWriter, r *http.Request) {
	log := d.cfg.Logger.With("remote", r.RemoteAddr)
	if err := d.cross.Check(r); err != nil {
		log.Warn("dashboard: action of another site refused")
		fail(w, http.StatusForbidden, "not from this page")
		return
	}
	if !d.allowed(r) {
		log.Warn("dashboard: action refused")
		fail(w, http.StatusForbidden, "actions are not allowed")
		return
	}
	if !d.begin(nil) {
		fail(w, http.StatusServiceUnavailable, "closed")
		return
	}
	defer d.work.Done()
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	if err := r.ParseForm(); err != nil {
		fail(w, http.StatusBadRequest, "no form")
		return
	}
	do, cooldown := r.PostForm.Get("do"), r.PostForm.Get("cooldown")
	e := d.find(r.PostForm.Get("governor"))
	if e == nil {
		fail(w, http.StatusNotFound, "no such governor in this process")
		return
	}
	switch do {
	case "pause":
		e.handle.Pause()
	case "resume":
		e.handle.Resume()
	case "clear":
		sc, found := d.scope(e.handle, cooldown)
		if !found {
			fail(w, http.StatusNotFound, "no such cooldown: it may have ended")
			return
		}
		e.handle.Clear(sc)
	default:
		fail(w, http.StatusBadRequest, "do what? pause, resume or clear")
		return
	}
	log.Info("dashboard: action", "do", do, "governor", e.id)
	d.changed(e)
	w.WriteHeader(http.StatusNoContent)
}

// scope finds the scope that is called so on the page.
func (d *Dashboard) scope(h governor.Handle, name string) (throttle.Scope, bool) {
	for _, c := range h.Stats().Cooldowns {
		if d.nameOf(c.Scope) == name {
			return c.Scope, true
		}
	}
	return throttle.Scope{}, false
}

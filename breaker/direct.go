package breaker

import (
	"time"

	"github.com/flyball-go/flyball/internal/direct"
)

// Direct is for policy.Chain, and not for users: its types are internal. It is the
// short way of calls while the breaker is closed.
func (b *Breaker) Direct(of any, base time.Time) (r direct.Route, ok bool) {
	if of != any(b) || b.core.cfg.IgnoreOnResult != nil || b.core.cfg.FailureOnResult != nil {
		return r, false
	}
	return direct.Route{Way: &way{b, base.Sub(b.core.begin)}, Clock: b.readsStart}, true
}

// way is the way of a Breaker.
type way struct {
	b     *Breaker
	shift time.Duration // from core.begin to the base
}

// Enter's pass is the permit and when the call began, since core.begin.
func (w *way) Enter(at time.Duration) (pass direct.Pass, ok bool) {
	id := w.b.id.Load()
	return direct.Pass{A: int64(id), B: int64(at + w.shift)}, passes(id)
}

func (w *way) Leave(p direct.Pass) {
	if !w.b.unmoved(Permit(p.A)) {
		w.b.succeed(Permit(p.A), time.Duration(p.B))
	}
}

func (w *way) Abort(p direct.Pass) {
	w.b.settle(Permit(p.A), time.Duration(p.B), result{outcome: Failure})
}

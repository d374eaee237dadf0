package limiter

import (
	"time"

	"github.com/flyball-go/flyball/internal/direct"
)

// Direct is for policy.Chain, and not for users: its types are internal. It is the
// short way of calls that there is a permit for.
func (l *RateLayer) Direct(of any, base time.Time) (r direct.Route, ok bool) {
	if of != any(l) || l.cfg.Permits != nil {
		return r, false
	}
	return direct.Route{Way: &rateWay{l, base.Sub(l.rate.time.base)}, Clock: true, Done: true}, true
}

// rateWay is the way of a RateLayer.
type rateWay struct {
	layer *RateLayer
	shift time.Duration // from the base of the Rate to that of the chain
}

// Enter's pass is the tat after the take, and the number of the state that holds it.
func (w *rateWay) Enter(at time.Duration) (pass direct.Pass, ok bool) {
	r := w.layer.rate
	if w.layer.cfg.MaxWait != 0 && r.line.permits.Load() != 0 {
		return pass, false
	}
	s, after, wait := r.take(r.time.after(at+w.shift), 1, 0)
	return direct.Pass{A: after, B: s.number}, wait == 0
}

// Leave has nothing to do: the permit is used.
func (w *rateWay) Leave(direct.Pass) {}
func (w *rateWay) Abort(direct.Pass) {}

// took is what was taken with a pass; nothing that could be given back, when the
// limit has changed since.
func (l *RateLayer) took(pass direct.Pass) (v RateReservation) {
	if s := l.rate.cur.Load(); s.number == pass.B {
		v = RateReservation{state: s, after: pass.A, n: 1}
	}
	return v
}

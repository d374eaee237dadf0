// Package event carries what governors and policies report: one flat [Event] by
// value, and a [Bus] that hands events to listeners without ever waiting for
// them.
//
// A governor's events are heard through its Listen method, those of a policy
// used alone through its OnEvent field, which may be a Bus's Emit:
//
//	stop := g.Listen(func(e event.Event) { log.Print(e.Kind, e.Scope, e.Until) }, event.Cooling, event.Cooled)
//	defer stop()
//
//	var bus event.Bus
//	bus.Listen(count, event.Retry, event.GaveUp)
//	cfg.OnEvent = bus.Emit
//
// An OnEvent is called through [Tell], on the goroutine of the call, which waits
// for it: a panic in it is dropped. A Bus and a Breaker count panics, the other
// policies do not: to have them counted, give a policy a Bus's Emit.
//
// Everything here may be used by any number of goroutines at once. Each listener
// has a bounded queue of its own and, while that is not empty, a goroutine: its
// function is called for one event at a time, in the order of emission, never
// under a lock of ours, and may call any method of the emitter. A listener that
// is slow loses its oldest undelivered events, which are counted; one that
// panics is recovered and counted; neither is noticed by the emitter or by other
// listeners.
//
// A Bus is no log and no message queue: what nobody listens to is not recorded, but
// for the last events of some kinds where Keep asks for it, and what a slow listener
// lost is gone.
package event

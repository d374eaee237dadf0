// Package chaos makes calls go wrong on purpose: errors, delays, made-up results
// and whatever else a function can do, in a share of the calls.
//
//	faults, err := chaos.Fault(chaos.Config{Rate: 0.01}, func(context.Context) error { return errUnavailable })
//	...
//	p := policy.Stack(retries, breaker, faults) // innermost: in place of the vendor
//
// A [Chaos] is a policy. It serves any number of goroutines at once, as long as
// the functions it was given do.
//
// It is no simulated vendor: what it does to one call does not depend on the
// others. For quotas, pauses and escalation see package vendortest.
package chaos

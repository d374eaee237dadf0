// Package policy puts layers around calls: retry, breaker, limits, timeouts and
// whatever else is a [Policy].
//
//	var guarded = policy.Chain(retries, breaker, timeout) // once, outermost first
//
//	user, err := policy.Do(ctx, guarded, func(ctx context.Context) (User, error) {
//		return api.User(ctx, id)
//	})
//
// A chain is composed once and serves calls of any result type: the result stays
// with the call and never passes through an interface. Predicates on results,
// made by [OnResult], read it there. A healthy call through a chain costs one
// allocation at most, unless a layer needs a context or a goroutine, and says so.
//
// [Chain] keeps the order it is given; [Stack] puts layers into the usual order.
// [Wrap], [Wrap1] and [Wrap2] put a chain around a function without changing its
// signature.
//
// This package also has the policies that fit on a page: [Timeout], [Bulkhead],
// [Fallback], [Hedge], [Cache]; and what stands beside a chain: a [Budget] for
// repetitions, [Collapse], which makes one call of many, and [Saga], for calls
// that must be undone. Retry, breaker, limits and chaos are in packages of those
// names.
//
// The configuration of each is a struct whose zero fields have useful meanings,
// validated when the policy is made. OnError there maps the errors that leave the
// layer, OnEvent hears what it decides.
//
// # Concurrency
//
// Chains, and the policies of this package, serve any number of goroutines at
// once. A [Call] belongs to one goroutine.
//
// A chain is no governor: it has no queue of its own, knows nothing of
// connections, and no layer here learns from what a vendor says.
package policy

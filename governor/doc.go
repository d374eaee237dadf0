// Package governor runs the calls of a whole process to one rate-limited API as
// the API wants them: one actor per external host takes submitted closures,
// learns from rate-limit errors how long whom to leave alone, lends out pooled
// connections, and hands each result back to whoever asked for it.
//
//	g, err := governor.New(governor.Config[Service, *Client]{
//		Name:   "googleads",
//		Vendor: vendors.GoogleAds(),
//		Pool:   &pool.Config[Service, *Client]{Open: dial, Close: hangUp, Max: 16},
//	})
//	defer g.Close()
//
//	req := governor.Submit(ctx, g.With(governor.Ask{Tenant: customer}), Reports,
//		func(ctx context.Context, c *Client) (Report, error) { return c.Report(ctx, customer) })
//	report, err := req.Result(ctx)
//
// # The life of a request
//
// A request waits in its lane: the queue of one selector, tenant, bucket and
// priority, in the order of submission. The lane of the highest priority goes
// first; what has waited for long shares with it, so that nothing waits for ever
// (Config.Ageing). Within a priority tenants share by cost and weight
// (Config.Weight), however much each asks for and in however many lanes: of
// requests that cost 100, one goes for every 100 of another tenant's that cost 1.
// The lanes of a tenant take turns. A decision costs O(log n) at most, with n
// lanes, and nothing where nothing waits. Before a
// request starts it passes the gate: no scope that it belongs to is cooling
// down, the breaker is willing, a slot and a connection are free, and every
// limit admits it. What stands in the way of one lane delays no other; a pause
// or a limit of the whole host delays all, and then the lane whose turn it is
// goes first, though another may cost less: each pays for its turn before.
//
// When an attempt ends with a rate-limit error the scope that the vendor meant
// is paused before anything else happens; the connection and the slot go back
// at once and the request returns to its place in the lane. When the pause is
// over one request goes first, as a probe, and then traffic grows. Lanes probe in
// turn, and who is refused again and again lets the others of its lane try.
//
// # Many at once
//
// Map does the same for each input of a sequence, with a bounded window of them under
// way. A closure that polls a vendor's job answers Again, and is called again later.
// A Group has a governor for each host, made when it is asked for.
//
// # The fast path
//
// While nothing waits and nothing is held, Do runs its closure on the caller's
// goroutine, once a slot, an idle connection, the limits and the breaker were had at
// once: the actor is not asked, which is most of what a call costs otherwise. With a
// cooldown anywhere, a pause, a request that waits, a connection that has to be
// opened, or KeepConn, it is queued like any other, and its closure runs on the
// caller's goroutine when it is granted: runtime.Goexit ends that, when everything has
// been given back. Only later attempts of a call that began on the fast path and was
// refused run on workers; their places are behind what was queued before it, and in no
// order among several such. Submit goes the same way to a worker.
//
// A goroutine that submits a request which can probably start at once, or that frees a
// slot, runs the scheduler itself if no other goroutine is running it.
//
// # Promises
//
// Every accepted request completes exactly once. No attempt starts in a scope between
// the receipt of its cooldown and the cooldown's end. What waits holds no slot and no
// connection, costs no goroutine, and is gone without a trace when its context ends. No
// limit is exceeded, and after Close nothing is left but closures that ignore their
// context. The page docs/governor.md has all the promises, with what each leaves out.
//
// # Concurrency
//
// Everything here may be used by any number of goroutines at once, also from
// inside closures and listeners. Closures of Submit and Map run on the governor's
// workers, those of Do and Stream on the caller's goroutine, as Map reads its input. A
// governor owns one goroutine, a Group none; each closure that runs on a worker has one
// more, which may then run another's, so it must leave its goroutine as it found it
// (runtime.LockOSThread). What is called in the actor, or by who does its work
// (limiters, a breaker, a context's methods), must return at once. When it panics there,
// or ends the goroutine (runtime.Goexit, and so testing.T.Fatal in a fake), that ends the
// process, with its stack: the state of everybody's requests is lost. Adapters,
// predicates, hooks and listeners are called outside it and under no lock of ours, but
// adapters and predicates delay the slot of the attempt they are asked about.
//
// # What it is not
//
// It is no job queue: nothing survives the process. It does not make a closure
// idempotent: it repeats an attempt only when the vendor refused it, or when
// Config.Retry says so. Of other processes it knows by Config.Store alone.
package governor

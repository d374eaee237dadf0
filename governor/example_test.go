package governor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// throttled is what the client of a made-up API returns for "slow down".
type throttled struct{ retryIn time.Duration }

func (e *throttled) Error() string { return fmt.Sprintf("acme: retry in %v", e.retryIn) }

// acme is all that a governor needs to know about that API.
type acme struct{}

func (acme) DelayError(err error) (delay time.Duration, limited bool) {
	if e, ok := errors.AsType[*throttled](err); ok {
		return e.retryIn, true
	}
	return 0, false
}

// client is a connection to the API.
type client struct{ refusals int }

func (c *client) report(_ context.Context, customer string) (string, error) {
	if c.refusals > 0 {
		c.refusals--
		return "", &throttled{10 * time.Millisecond}
	}
	return "report of " + customer, nil
}

func newAcme() *governor.Plain {
	g, err := governor.New(governor.PlainConfig{Name: "acme", Vendor: acme{}, MinCooldown: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	return g
}

// The API says in each answer what is left of the quota and what the call cost.
// With SpendEvenly what is left lasts until it is renewed.
func ExampleReport() {
	g, err := governor.New(governor.PlainConfig{Name: "acme", Vendor: acme{}, SpendEvenly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	reset := time.Now().Add(time.Hour)
	_, err = governor.Do(context.Background(), g, "", governor.Func(func(ctx context.Context) (string, error) {
		// From the answer's headers; an adapter's Learn reads them.
		return "answer", governor.Report(ctx, throttle.Quota{Limit: 5000, Remaining: 0, Reset: reset, Cost: 1})
	}))
	fmt.Println(err)
	_, err = governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (string, error) { return "", nil }))
	cooling, _ := errors.AsType[*governor.CooldownError](err)
	fmt.Println(cooling.Scope, cooling.Signal.Kind, cooling.Signal.Source)
	// Output:
	// <nil>
	// host quota remaining 0 of 5000
}

// A call is charged what it is expected to cost, and settled when its answer says
// what it did.
func ExampleSettle() {
	tokens, err := limiter.NewQuota(limiter.QuotaConfig{Limit: 10_000, Per: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	g, err := governor.New(governor.PlainConfig{Name: "acme", Limits: []governor.Limit{{Limiter: tokens}}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = governor.Do(context.Background(), g.With(governor.Ask{Cost: 4000}), "", governor.Func(func(ctx context.Context) (string, error) {
		return "answer", governor.Settle(ctx, 1200)
	}))
	g.Close()
	fmt.Println(err, tokens.Available(time.Now(), ""))
	// Output: <nil> 8800
}

// What was learned survives a restart.
func ExampleLearned() {
	g := newAcme()
	g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "ann"}, Delay: time.Hour, Source: "Retry-After: 3600"})
	kept, err := json.Marshal(g.Export()) // to a file
	g.Close()
	if err != nil {
		log.Fatal(err)
	}

	cfg := governor.PlainConfig{Name: "acme", Vendor: acme{}}
	if err := json.Unmarshal(kept, &cfg.Restore); err != nil {
		log.Fatal(err)
	}
	g, err = governor.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for _, c := range g.Stats().Cooldowns {
		fmt.Println(c.Scope, c.Phase, c.Signal.Source)
	}
	// Output: tenant:ann cooling Retry-After: 3600
}

// Before a governor is trusted it is asked what it would do.
func ExampleConfig_observe() {
	g, err := governor.New(governor.PlainConfig{
		Name: "acme", Vendor: acme{}, Observe: true,
		Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 2, Per: time.Hour}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for range 5 {
		if _, err := governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return 0, nil })); err != nil {
			log.Fatal(err)
		}
	}
	s := g.Stats()
	fmt.Println(s.Succeeded, "calls made,", s.WouldWait, "would have waited")
	// Output: 5 calls made, 3 would have waited
}

// Reports of several customers over pooled connections. The API refuses the
// first call; the reports are all there all the same.
func Example() {
	g, err := governor.New(governor.Config[string, *client]{
		Name:   "acme",
		Vendor: acme{},
		Pool: &pool.Config[string, *client]{
			Open: func(ctx context.Context, selector string) (*client, error) { return &client{refusals: 1}, nil },
			Max:  1,
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()

	var reqs []*governor.Request[string]
	for _, customer := range []string{"ann", "bob"} {
		reqs = append(reqs, governor.Submit(context.Background(), g.With(governor.Ask{Tenant: customer}), "reports",
			func(ctx context.Context, c *client) (string, error) { return c.report(ctx, customer) }))
	}
	for _, req := range reqs {
		fmt.Println(req.Result(context.Background()))
	}
	// Output:
	// report of ann <nil>
	// report of bob <nil>
}

// What was accepted is done before the program ends, if ten seconds are enough for it.
func ExampleGovernor_Shutdown() {
	g := newAcme()
	for n := range 3 { // the messages of a queue
		governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return n, nil }))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := g.Shutdown(ctx) // a *governor.ForcedError, or what has ended ctx, when that was not enough
	fmt.Println(err, g.Stats().Succeeded, "done")
	_, err = governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
	fmt.Println(err, errors.Is(err, governor.ErrClosed))
	// Output:
	// <nil> 3 done
	// governor: closed true
}

func ExampleDo() {
	g := newAcme()
	defer g.Close()
	sum, err := governor.Do(context.Background(), g, "", governor.Func(func(ctx context.Context) (int, error) {
		return 40 + 2, nil
	}))
	fmt.Println(sum, err)
	// Output: 42 <nil>
}

func ExampleSubmit() {
	g := newAcme()
	defer g.Close()
	var reqs []*governor.Request[int]
	for i := range 3 { // returns at once, however many wait
		reqs = append(reqs, governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return i * i, nil })))
	}
	for _, r := range reqs {
		v, err := r.Result(context.Background())
		fmt.Println(v, err)
	}
	// Output:
	// 0 <nil>
	// 1 <nil>
	// 4 <nil>
}

// The loop's body runs while the slot and the connection are held, so the rows
// may be read from the connection one by one.
func ExampleStream() {
	g := newAcme()
	defer g.Close()
	rows := func(ctx context.Context, _ struct{}) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, row := range []string{"first", "second", "third"} {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
	for row, err := range governor.Stream(context.Background(), g, "", rows) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(row)
		if row == "second" {
			break // gives everything back
		}
	}
	// Output:
	// first
	// second
}

// A response's body is read after the closure has returned. Until it is closed
// the call counts as running, and Shutdown waits for it.
func ExampleHold() {
	g := newAcme()
	resp, err := governor.Do(context.Background(), g, "", governor.Func(func(ctx context.Context) (*http.Response, error) {
		resp := &http.Response{Body: io.NopCloser(strings.NewReader("hello"))}
		resp.Body = &held{resp.Body, governor.Hold(ctx)}
		return resp, nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("in flight:", g.Stats().InFlight)
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	fmt.Println(string(body), g.Shutdown(context.Background()))
	// Output:
	// in flight: 1
	// hello <nil>
}

type held struct {
	io.ReadCloser
	release func(error)
}

func (h *held) Close() error {
	err := h.ReadCloser.Close()
	h.release(err)
	return err
}

// A latest start, and what is known when it cannot be kept.
func ExampleGovernor_With() {
	g := newAcme()
	defer g.Close()
	g.Learn(throttle.Signal{Delay: time.Minute})
	soon := g.With(governor.Ask{Tenant: "ann", StartBy: time.Now().Add(time.Second)})
	_, err := governor.Do(context.Background(), soon, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
	late, ok := errors.AsType[*governor.LateError](err)
	fmt.Println(ok, late.RetryAfter().Round(time.Minute), governor.IsRefused(err))
	// Output: true 1m0s true
}

// A cooldown longer than MaxWait is not waited for.
func ExampleCooldownError() {
	g := newAcme()
	defer g.Close()
	_, err := governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) {
		return 0, &throttled{11 * time.Hour} // the day's quota is used up
	}))
	if cooling, ok := errors.AsType[*governor.CooldownError](err); ok {
		fmt.Println(cooling.Scope, "is back in", cooling.RetryAfter().Round(time.Hour))
	}
	// Output: host is back in 11h0m0s
}

// Refused requests were never executed and may be sent elsewhere.
func ExampleIsRefused() {
	g := newAcme()
	g.Close()
	_, err := governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
	fmt.Println(err, governor.IsRefused(err))
	// Output: governor: closed true
}

// What an operator can do with any governor.
func ExampleHandle() {
	g := newAcme()
	defer g.Close()
	var h governor.Handle = g
	heard := make(chan event.Event, 1)
	stop := h.Listen(func(e event.Event) { heard <- e }, event.Cooling)
	defer stop()

	h.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "ann"}, Delay: time.Hour, Source: "support called"})
	e := <-heard
	fmt.Println(e.Kind, e.Scope, e.Delay, e.Source)

	h.Clear(throttle.Scope{Level: throttle.Tenant, Key: "ann"})
	fmt.Println(len(h.Stats().Cooldowns))
	// Output:
	// cooling tenant:ann 1h0m0s support called
	// 0
}

// A quota that is documented: 300 calls a minute in all, and one a second for each
// tenant, by a bucket, as this vendor says.
func ExampleLimit() {
	each, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 1})
	if err != nil {
		log.Fatal(err)
	}
	g, err := governor.New(governor.PlainConfig{Name: "acme", Limits: []governor.Limit{
		{Quota: limiter.QuotaConfig{Limit: 300, Per: time.Minute}}, // Per is throttle.Host
		{Per: throttle.Tenant, Limiter: each},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	_, err = governor.Do(context.Background(), g.With(governor.Ask{Cost: 2}), "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
	fmt.Println(err)
	// Output: governor: cost is more than a limit can ever admit
}

// Work that was accepted is finished, new work is not accepted.
func ExampleGovernor_shutdown() {
	g := newAcme()
	req := governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (string, error) {
		time.Sleep(10 * time.Millisecond)
		return "done", nil
	}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(g.Shutdown(ctx))
	fmt.Println(req.Result(ctx))
	// Output:
	// <nil>
	// done <nil>
}

// A full queue that gives way to more important work.
func ExampleOverflow() {
	g, err := governor.New(governor.PlainConfig{Name: "acme", MaxQueue: 1, Overflow: governor.DropLower})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	g.Pause()
	work := governor.Func(func(context.Context) (string, error) { return "done", nil })
	low := governor.Submit(context.Background(), g, "", work)
	high := governor.Submit(context.Background(), g.With(governor.Ask{Priority: 1}), "", work)
	_, err = low.Result(context.Background())
	fmt.Println(err)
	g.Resume()
	fmt.Println(high.Result(context.Background()))
	// Output:
	// governor: dropped from a full queue
	// done <nil>
}

// upload is a connection to an API that keeps the parts of a file in the session.
type upload struct {
	parts   []string
	refused bool
}

func (u *upload) send(part string) error {
	if len(u.parts) == 1 && !u.refused {
		u.refused = true
		return &throttled{5 * time.Millisecond}
	}
	u.parts = append(u.parts, part)
	return nil
}

// A file half sent must not get parts of another one, and goes on where it was:
// whoever waits out a pause in the middle of it keeps the connection meanwhile.
func ExampleAsk_keepConn() {
	g, err := governor.New(governor.Config[string, *upload]{
		Name:        "acme",
		Vendor:      acme{},
		MinCooldown: time.Millisecond,
		Pool: &pool.Config[string, *upload]{
			Open: func(context.Context, string) (*upload, error) { return &upload{}, nil },
			Max:  1,
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()

	var reqs []*governor.Request[[]string]
	for _, customer := range []string{"ann", "bob"} {
		reqs = append(reqs, governor.Submit(context.Background(), g.With(governor.Ask{Tenant: customer, KeepConn: true}), "files",
			func(ctx context.Context, u *upload) ([]string, error) {
				for len(u.parts) < 3 {
					if err := u.send(customer); err != nil {
						return nil, err
					}
				}
				file := u.parts
				u.parts = nil
				return file, nil
			}))
	}
	for _, req := range reqs {
		fmt.Println(req.Result(context.Background()))
	}
	// Output:
	// [ann ann ann] <nil>
	// [bob bob bob] <nil>
}

// A page that somebody looks at has better things to do than to wait: it gets the
// vendor's error at once. All others are spared the same experience.
func ExampleAsk_noRetry() {
	g := newAcme()
	defer g.Close()
	page := g.With(governor.Ask{NoRetry: true})
	_, err := governor.Do(context.Background(), page, "", governor.Func(func(context.Context) (int, error) {
		return 0, &throttled{time.Minute}
	}))
	fmt.Println(err)
	for _, c := range g.Stats().Cooldowns {
		fmt.Println(c.Scope, c.Phase)
	}
	// Output:
	// acme: retry in 1m0s
	// host cooling
}

// trip is a small circuit breaker: three failures in a row open it for a minute.
// After that everything may pass again, so it needs no permits.
type trip struct {
	mu       sync.Mutex
	failures int
	until    time.Time
}

func (t *trip) Ready(now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.until) {
		return &breaker.OpenError{Until: t.until}
	}
	return nil
}

func (t *trip) Acquire(now time.Time) (breaker.Permit, error) { return 0, t.Ready(now) }

func (t *trip) Report(_ breaker.Permit, now time.Time, o breaker.Outcome, _ time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch o {
	case breaker.Success:
		t.failures = 0
	case breaker.Failure: // a rate limit is none: that is Neutral
		if t.failures++; t.failures >= 3 {
			t.failures, t.until = 0, now.Add(time.Minute)
		}
	}
}

// An API that is down is left alone. The calls that the breaker refuses were not
// sent, and say when to come back.
func ExampleConfig_breaker() {
	g, err := governor.New(governor.PlainConfig{Name: "acme", Breaker: &trip{}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for range 4 {
		_, err = governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) {
			return 0, errors.New("acme: internal error")
		}))
		if open, ok := errors.AsType[*breaker.OpenError](err); ok {
			fmt.Println("open for", open.RetryAfter().Round(time.Minute), governor.IsRefused(err))
			continue
		}
		fmt.Println(err)
	}
	// Output:
	// acme: internal error
	// acme: internal error
	// acme: internal error
	// open for 1m0s true
}

// Whether a call that failed for good may have done something is what decides
// if it can be sent again by other means.
func ExampleGaveUpError() {
	g, err := governor.New(governor.PlainConfig{
		Name:            "acme",
		Vendor:          acme{},
		Retry:           &retry.Config{Attempts: 3, Backoff: backoff.None},
		LimitedAttempts: 1, // to give up at the first refusal
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for _, answer := range []error{errors.New("acme: internal error"), &throttled{time.Minute}} {
		_, err := governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return 0, answer }))
		var gaveUp *governor.GaveUpError
		if errors.As(err, &gaveUp) {
			fmt.Println(gaveUp.Attempts, gaveUp.Err, "- not executed:", governor.IsRefused(err))
		}
	}
	// Output:
	// 3 acme: internal error - not executed: false
	// 1 acme: retry in 1m0s - not executed: true
}

// A closure that waits for another call of its own governor holds a slot
// meanwhile. With no slot spare it would wait for itself, and is told so.
func ExampleDo_reentrant() {
	g, err := governor.New(governor.PlainConfig{Name: "acme", Workers: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	ctx := context.Background()
	page := governor.Func(func(context.Context) (int, error) { return 10, nil })

	_, err = governor.Do(ctx, g, "", governor.Func(func(ctx context.Context) (int, error) {
		return governor.Do(ctx, g, "", page) // ctx is the closure's: so it is noticed
	}))
	fmt.Println(errors.Is(err, governor.ErrReentrant))

	// One call after the other needs one slot.
	pages, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 2, nil }))
	fmt.Println(pages, err)
	for range pages {
		fmt.Println(governor.Do(ctx, g, "", page))
	}
	// Output:
	// true
	// 2 <nil>
	// 10 <nil>
	// 10 <nil>
}

// Nothing can stop a closure that ignores its context. Close does not wait for it
// for ever, and says how many there are.
func ExampleForcedError() {
	g, err := governor.New(governor.PlainConfig{Name: "acme", CloseGrace: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	started, never := make(chan struct{}), make(chan struct{})
	defer close(never)
	req := governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (int, error) {
		close(started)
		<-never
		return 1, nil
	}))
	<-started

	if forced, ok := errors.AsType[*governor.ForcedError](g.Close()); ok {
		fmt.Println("still running:", forced.Running)
	}
	_, err = req.Result(context.Background()) // who waits for it is not left waiting
	fmt.Println(errors.Is(err, governor.ErrAbandoned), governor.IsRefused(err))
	// Output:
	// still running: 1
	// true false
}

// The vendor has announced that an endpoint will be away for an hour, by mail.
// Nobody runs into it, and nothing else stops.
func ExampleGovernor_learn() {
	g := newAcme()
	defer g.Close()
	endpoint := throttle.Scope{Level: throttle.Bucket, Key: "reports"}
	g.Learn(throttle.Signal{
		Kind: throttle.KindOverload, Scope: endpoint, Until: time.Now().Add(time.Hour), Source: "announced maintenance",
	})
	call := func(bucket string) error {
		_, err := governor.Do(context.Background(), g.With(governor.Ask{Bucket: bucket}), "",
			governor.Func(func(context.Context) (int, error) { return 1, nil }))
		return err
	}

	if cooling, ok := errors.AsType[*governor.CooldownError](call("reports")); ok {
		fmt.Println(cooling.Scope, "-", cooling.Signal.Source)
	}
	fmt.Println("campaigns:", call("campaigns"))

	g.Clear(endpoint) // it was back earlier
	fmt.Println("reports:", call("reports"))
	// Output:
	// bucket:reports - announced maintenance
	// campaigns: <nil>
	// reports: <nil>
}

// While credentials are being replaced nothing starts, and nothing is lost.
func ExampleGovernor_pause() {
	g := newAcme()
	defer g.Close()
	g.Pause()
	req := governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (string, error) { return "done", nil }))
	s := g.Stats()
	fmt.Println("paused:", s.Paused, "queued:", s.Queued, "the request:", req.State())

	g.Resume()
	fmt.Println(req.Result(context.Background()))
	// Output:
	// paused: true queued: 1 the request: queued
	// done <nil>
}

// A queue that is made shorter in an emergency. What is too much is turned away
// at once, as Overflow says, and callers can use that time.
func ExampleGovernor_setMaxQueue() {
	g, err := governor.New(governor.PlainConfig{Name: "acme", Overflow: governor.Reject})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	g.Pause()
	var reqs []*governor.Request[int]
	for i := range 3 {
		reqs = append(reqs, governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return i, nil })))
	}
	if err := g.SetMaxQueue(1); err != nil {
		log.Fatal(err)
	}
	g.Resume()
	for _, req := range reqs {
		_, err := req.Result(context.Background())
		fmt.Println(err, errors.Is(err, governor.ErrQueueFull))
	}
	// Output:
	// <nil> false
	// governor: queue full true
	// governor: queue full true
}

// Requests that were not executed can be sent elsewhere without doing anything
// twice.
func ExampleIsRefused_elsewhere() {
	first, second := newAcme(), newAcme() // two accounts, say
	defer first.Close()
	defer second.Close()
	first.Learn(throttle.Signal{Kind: throttle.KindQuota, Delay: 10 * time.Hour}) // is used up for today

	for _, g := range []*governor.Plain{first, second} {
		v, err := governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (string, error) { return "done", nil }))
		if governor.IsRefused(err) {
			fmt.Println("not sent:", errors.Is(err, governor.ErrCooling))
			continue
		}
		fmt.Println(v, err)
		break
	}
	// Output:
	// not sent: true
	// done <nil>
}

// A deadline of the context is a latest start, too. When it is known that a
// request cannot make it, its caller hears so now, not when the time is up.
func ExampleLateError() {
	g := newAcme()
	defer g.Close()
	g.Learn(throttle.Signal{Delay: 10 * time.Minute})

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
	if late, ok := errors.AsType[*governor.LateError](err); ok {
		fmt.Println("could start", late.Could.Sub(late.By).Round(time.Minute), "too late")
	}
	fmt.Println(errors.Is(err, context.DeadlineExceeded), ctx.Err())
	// Output:
	// could start 9m0s too late
	// true <nil>
}

// A bug in one closure ends that request and nothing else.
func ExamplePanicError() {
	g := newAcme()
	defer g.Close()
	_, err := governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) {
		var rows []int
		return rows[7], nil
	}))
	if p, ok := errors.AsType[*governor.PanicError](err); ok {
		fmt.Println(p.Value)
		fmt.Println("with a stack:", len(p.Stack) > 0, "- not executed:", governor.IsRefused(err))
	}
	// Output:
	// runtime error: index out of range [7] with length 0
	// with a stack: true - not executed: false
}

// Cancel ends a request wherever it is: one that waits leaves the queue without
// ever having run, one that runs has its context cancelled and has the last word.
func ExampleRequest_cancel() {
	g, err := governor.New(governor.PlainConfig{Name: "acme", Workers: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	started := make(chan struct{})
	running := governor.Submit(context.Background(), g, "", governor.Func(func(ctx context.Context) (string, error) {
		close(started)
		<-ctx.Done()
		return "", fmt.Errorf("report: %w", context.Cause(ctx))
	}))
	<-started
	waiting := governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (string, error) { return "never", nil }))
	fmt.Println(running.State(), waiting.State())

	waiting.Cancel()
	<-waiting.Done()
	running.Cancel()
	<-running.Done()
	for _, req := range []*governor.Request[string]{waiting, running} {
		_, err := req.Result(context.Background())
		fmt.Println(err, "- not executed:", governor.IsRefused(err))
	}
	// Output:
	// running queued
	// governor: cancelled while waiting: context canceled - not executed: true
	// report: context canceled - not executed: false
}

// Leaving cancels nothing: who comes back later, or somebody else, finds the
// result.
func ExampleRequest_Result() {
	g := newAcme()
	defer g.Close()
	g.Pause()
	req := governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (string, error) { return "done", nil }))

	visit, leave := context.WithCancel(context.Background())
	leave()
	_, err := req.Result(visit)
	fmt.Println(err)

	g.Resume()
	fmt.Println(req.Result(context.Background()))
	fmt.Println(req.Result(visit)) // it is there now, and costs no waiting
	// Output:
	// context canceled
	// done <nil>
	// done <nil>
}

// perCustomer is an adapter for an API that counts every customer by itself.
type perCustomer struct{ acme }

func (perCustomer) Signals(err error, at time.Time) []throttle.Signal {
	e, ok := errors.AsType[*throttled](err)
	if !ok {
		return nil
	}
	return []throttle.Signal{{
		Kind:   throttle.KindQuota,
		Scope:  throttle.Scope{Level: throttle.Tenant}, // without a key: the refused request's own
		Delay:  e.retryIn,
		Source: "operations per day",
	}}
}

// With a DelayError alone, one customer who has used up a quota would stop all.
func ExampleSignaler() {
	g, err := governor.New(governor.PlainConfig{Name: "acme", Vendor: perCustomer{}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for _, customer := range []string{"ann", "bob"} {
		_, err := governor.Do(context.Background(), g.With(governor.Ask{Tenant: customer}), "", governor.Func(func(context.Context) (int, error) {
			if customer == "ann" {
				return 0, &throttled{8 * time.Hour}
			}
			return 1, nil
		}))
		if cooling, ok := errors.AsType[*governor.CooldownError](err); ok {
			fmt.Println(cooling.Scope, cooling.Signal.Kind, "-", cooling.Signal.Source)
			continue
		}
		fmt.Println(customer, err)
	}
	// Output:
	// tenant:ann quota - operations per day
	// bob <nil>
}

// What an operator wants to see: whose work waits, and for what.
func ExampleStats() {
	g := newAcme()
	defer g.Close()
	g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "ann"}, Delay: time.Minute, Source: "Retry-After: 60"})
	g.Pause() // else bob's would not wait
	for _, customer := range []string{"ann", "bob", "ann"} {
		governor.Submit(context.Background(), g.With(governor.Ask{Tenant: customer}), "",
			governor.Func(func(context.Context) (int, error) { return 1, nil }))
	}
	s := g.Stats()
	fmt.Println(s.Queued, "of at most", s.MaxQueue, "wait, in flight:", s.InFlight)
	for _, l := range s.Lanes {
		fmt.Println(l.Tenant, l.Waiting)
	}
	for _, c := range s.Cooldowns {
		fmt.Println(c.Scope, c.Phase, c.Signal.Source)
	}
	// Output:
	// 3 of at most 10000 wait, in flight: 0
	// ann 2
	// bob 1
	// tenant:ann cooling Retry-After: 60
}

// The counters tell what the vendor's limits have cost. After Shutdown they are
// final.
func ExampleStats_counters() {
	g := newAcme()
	c := &client{refusals: 1}
	_, err := governor.Do(context.Background(), g, "", governor.Func(func(ctx context.Context) (string, error) { return c.report(ctx, "ann") }))
	if err != nil {
		log.Fatal(err)
	}
	if err := g.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	s := g.Stats()
	fmt.Println("requests:", s.Submitted, "succeeded:", s.Succeeded)
	fmt.Println("attempts:", s.Started, "refused:", s.Limited, "pauses:", s.Episodes)
	// Output:
	// requests: 1 succeeded: 1
	// attempts: 2 refused: 1 pauses: 1
}

// errBusy is all that the client of an API without manners says.
var errBusy = errors.New("busy")

// curt is that API's adapter.
type curt struct{}

func (curt) DelayError(err error) (delay time.Duration, limited bool) {
	return throttle.Unknown, errors.Is(err, errBusy)
}

// A vendor that never says for how long. The governor guesses, longer each time,
// so it is called less and less until it answers again.
func ExampleVendor() {
	g, err := governor.New(governor.PlainConfig{
		Name: "acme", Vendor: curt{}, MinCooldown: time.Millisecond,
		Guess: backoff.Exponential{Initial: 2 * time.Millisecond, Multiplier: 3}, // rather seconds
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	pauses := make(chan time.Duration, 9)
	stop := g.Listen(func(e event.Event) { pauses <- e.Delay }, event.Cooling)
	defer stop()

	attempts := 0
	_, err = governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) {
		if attempts++; attempts <= 3 {
			return 0, errBusy
		}
		return 1, nil
	}))
	fmt.Println(err, <-pauses, <-pauses, <-pauses)
	// Output: <nil> 2ms 6ms 18ms
}

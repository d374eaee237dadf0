package governor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
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
// the call counts as running.
func ExampleHold() {
	g := newAcme()
	defer g.Close()
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
	fmt.Println(string(body), g.Stats().InFlight)
	// Output:
	// in flight: 1
	// hello 0
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

// A quota that is documented: ten calls a second in all, and one a second for
// each tenant.
func ExampleLimit() {
	host, err := limiter.NewBucket(limiter.BucketConfig{Rate: 10, Burst: 5})
	if err != nil {
		log.Fatal(err)
	}
	each, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 1})
	if err != nil {
		log.Fatal(err)
	}
	g, err := governor.New(governor.PlainConfig{Name: "acme", Limits: []governor.Limit{
		{Limiter: host}, // Per is throttle.Host
		{Per: throttle.Tenant, Limiter: each},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	_, err = governor.Do(context.Background(), g.With(governor.Ask{Cost: 6}), "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
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

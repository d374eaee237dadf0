package pool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
)

type session struct{ service string }

func (s *session) get(key string) (string, error) { return s.service + "/" + key, nil }

func dial(_ context.Context, service string) (*session, error) { return &session{service}, nil }

func Example() {
	p, err := pool.New(pool.Config[string, *session]{
		Open: func(ctx context.Context, service string) (*session, error) {
			fmt.Println("open", service)
			return &session{service}, nil
		},
		Close:       func(service string, s *session) { fmt.Println("close", service) },
		Max:         1,
		IdleTimeout: time.Minute,
		IsBad:       func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	get := func(service, key string) {
		r, err := p.Acquire(context.Background(), service)
		if err != nil {
			fmt.Println(err)
			return
		}
		v, err := r.Value().get(key)
		if p.IsBad(err) {
			r.Discard(err)
			return
		}
		r.Release()
		fmt.Println(v)
	}
	get("reports", "1")
	get("reports", "2")   // uses the idle connection
	get("campaigns", "3") // there may be only one: replaces it

	// Output:
	// open reports
	// reports/1
	// reports/2
	// close reports
	// open campaigns
	// campaigns/3
	// close campaigns
}

func ExamplePool_Acquire() {
	p, err := pool.New(pool.Config[string, *session]{
		Open: func(ctx context.Context, service string) (*session, error) { return &session{service}, nil },
		Max:  1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	r, err := p.Acquire(context.Background(), "reports")
	fmt.Println(r.Value().service, err)

	// The only connection is lent: others wait, as long as they like.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = p.Acquire(ctx, "reports")
	fmt.Println(err, errors.Is(err, context.DeadlineExceeded))

	r.Release()
	r.Release() // does nothing
	// Output:
	// reports <nil>
	// pool: no connection: context deadline exceeded true
}

func ExamplePool_Reserve() {
	p, err := pool.New(pool.Config[string, *session]{
		Open: func(ctx context.Context, service string) (*session, error) { return &session{service}, nil },
		Max:  1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	p.OnFree(func() { fmt.Println("something is free") })

	r, ok := p.Reserve("reports")
	fmt.Println(ok, r.Ready())
	_, err = r.Conn(context.Background())
	fmt.Println(err)

	_, ok = p.Reserve("reports")
	fmt.Println(ok, p.Full("reports"))
	r.Release()
	// Output:
	// true false
	// <nil>
	// false true
	// something is free
}

// A caller that leaves while its connection is being opened wastes nothing: the
// connection is there for the next one.
func ExampleReservation_Conn() {
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan struct{})
	p, err := pool.New(pool.Config[string, *session]{
		Open: func(_ context.Context, service string) (*session, error) {
			leave() // this handshake takes longer than the caller wants to wait
			<-left
			return &session{service}, nil
		},
		Max: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	r, _ := p.Reserve("reports") // never blocks
	_, err = r.Conn(ctx)         // may
	fmt.Println(errors.Is(err, context.Canceled))
	close(left)

	r, err = p.Acquire(context.Background(), "reports")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Release()
	fmt.Println(r.Value().service, "opened:", p.Stats().Created)
	// Output:
	// true
	// reports opened: 1
}

// What IsBad takes for the sign of a broken connection is thrown away, so that
// nobody else is lent it.
func ExampleReservation_Discard() {
	opened := 0
	p, err := pool.New(pool.Config[string, *session]{
		Open: func(context.Context, string) (*session, error) {
			opened++
			return &session{fmt.Sprint("session ", opened)}, nil
		},
		IsBad: func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	answers := []error{nil, errors.New("no such report"), io.ErrUnexpectedEOF, nil}
	for _, err := range answers {
		r, openErr := p.Acquire(context.Background(), "reports")
		if openErr != nil {
			log.Fatal(openErr)
		}
		fmt.Printf("%s: %v\n", r.Value().service, err)
		if p.IsBad(err) {
			r.Discard(err)
		} else {
			r.Release() // the vendor's own errors leave the connection as good as it was
		}
	}
	// Output:
	// session 1: <nil>
	// session 1: no such report
	// session 1: unexpected EOF
	// session 2: <nil>
}

// One busy service cannot take every connection from the others.
func ExampleConfig_maxPerSelector() {
	p, err := pool.New(pool.Config[string, *session]{Open: dial, Max: 3, MaxPerSelector: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	for range 2 {
		r, err := p.Acquire(context.Background(), "reports")
		if err != nil {
			log.Fatal(err)
		}
		defer r.Release()
	}
	// A third would have to wait, though there is a place left: for somebody else.
	fmt.Println("reports full:", p.Full("reports"))
	fmt.Println("campaigns full:", p.Full("campaigns"))
	// Output:
	// reports full: true
	// campaigns full: false
}

// A server that was restarted knows its old sessions no more. Check finds that
// out before a call does, and the caller gets a new session instead.
func ExampleConfig_check() {
	var answer error // of the server, to a ping
	p, err := pool.New(pool.Config[string, *session]{
		Open: func(ctx context.Context, service string) (*session, error) {
			fmt.Println("open", service)
			return dial(ctx, service)
		},
		Close: func(service string, s *session) { fmt.Println("close", service) },
		Check: func(context.Context, string, *session) error { return answer },
		// With CheckAfter only connections that were idle for so long are
		// examined: a busy one is not worth a round trip for each call.
		CheckAfter: 0,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	for _, answer = range []error{nil, nil, errors.New("unknown session")} {
		r, err := p.Acquire(context.Background(), "reports")
		if err != nil {
			log.Fatal(err)
		}
		r.Release()
	}
	// Output:
	// open reports
	// close reports
	// open reports
	// close reports
}

// A vendor that ends sessions after an hour, and hangs up after a minute of
// silence, is left a little earlier: no call runs into the end of its
// connection. (The idle minute is shorter here.)
func ExampleConfig_idleTimeout() {
	discarded := make(chan event.Event, 1)
	p, err := pool.New(pool.Config[string, *session]{
		Open:        dial,
		MaxAge:      55 * time.Minute,
		IdleTimeout: 5 * time.Millisecond,
		OnEvent: func(e event.Event) {
			if e.Kind == event.PoolDiscarded {
				discarded <- e
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	r, err := p.Acquire(context.Background(), "reports")
	if err != nil {
		log.Fatal(err)
	}
	r.Release()

	e := <-discarded
	fmt.Println(e.Source, "-", e.Err)
	fmt.Println("open:", p.Stats().Open)
	// Output:
	// reports - pool: reached IdleTimeout
	// open: 0
}

// While a server is down it is not dialled by everybody at once: after a failure
// its selector backs off, and Acquire waits for the end of that.
func ExampleConfig_openBackoff() {
	dials := 0
	p, err := pool.New(pool.Config[string, *session]{
		Open: func(ctx context.Context, service string) (*session, error) {
			if dials++; dials < 3 {
				return nil, errors.New("connection refused")
			}
			return dial(ctx, service)
		},
		OpenBackoff: backoff.Exponential{Initial: time.Millisecond, Max: 10 * time.Second},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	for {
		r, err := p.Acquire(context.Background(), "reports")
		if err != nil {
			fmt.Println(err)
			continue // no sleep: the backoff is the pool's, one for all callers
		}
		fmt.Println(r.Value().service, "is there, backing off:", !p.NotBefore("reports").IsZero())
		r.Release()
		return
	}
	// Output:
	// pool: open reports: connection refused
	// pool: open reports: connection refused
	// reports is there, backing off: false
}

// Wrong credentials get no better by waiting. An Open that says so has everybody
// told at once, for as long as the backoff lasts.
func ExampleOpenError() {
	errLogin := errors.New("invalid developer token")
	dials := 0
	p, err := pool.New(pool.Config[string, *session]{
		Open: func(context.Context, string) (*session, error) {
			dials++
			return nil, retry.Permanent(errLogin)
		},
		OpenBackoff: backoff.Constant(time.Minute),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	for range 2 {
		_, err = p.Acquire(context.Background(), "reports")
		failed, ok := errors.AsType[*pool.OpenError](err)
		fmt.Println(ok, failed.Selector, failed.Permanent(), errors.Is(err, errLogin))
	}
	fmt.Println("dials:", dials)
	// Output:
	// true reports true true
	// true reports true true
	// dials: 1
}

// account is a selector of several parts. Its String method keeps the secret out
// of events and errors.
type account struct{ service, login, secret string }

func (a account) String() string { return a.service + " as " + a.login }

func ExampleConfig_onEvent() {
	p, err := pool.New(pool.Config[account, *session]{
		Open:    func(ctx context.Context, a account) (*session, error) { return dial(ctx, a.service) },
		OnEvent: func(e event.Event) { fmt.Println(e.Kind, "-", e.Source) },
	})
	if err != nil {
		log.Fatal(err)
	}
	r, err := p.Acquire(context.Background(), account{"reports", "ann", "hunter2"})
	if err != nil {
		log.Fatal(err)
	}
	r.Release()
	p.Close() // waits for what OnEvent still hears
	// Output: pool created - reports as ann
}

// MaxUses is for servers that grow slower with every call of a session. What it
// costs is in Stats.
func ExamplePool_Stats() {
	p, err := pool.New(pool.Config[string, *session]{Open: dial, Max: 4, MaxUses: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	acquire := func(service string) *pool.Reservation[string, *session] {
		r, err := p.Acquire(context.Background(), service)
		if err != nil {
			log.Fatal(err)
		}
		return r
	}
	for range 5 {
		acquire("reports").Release()
	}
	defer acquire("campaigns").Release()

	s := p.Stats()
	fmt.Println("in use", s.InUse, "idle", s.Idle, "waiting", s.Waiting)
	fmt.Println("created", s.Created, "reused", s.Reused, "discarded", s.Discarded)
	// Output:
	// in use 1 idle 1 waiting 0
	// created 4 reused 2 discarded 2
}

// A service that stops gives those who still use a connection a limited time.
func ExamplePool_Shutdown() {
	p, err := pool.New(pool.Config[string, *session]{
		Open:  dial,
		Close: func(service string, s *session) { fmt.Println("close", service) },
	})
	if err != nil {
		log.Fatal(err)
	}
	r, err := p.Acquire(context.Background(), "reports")
	if err != nil {
		log.Fatal(err)
	}

	p.Shutdown() // does not wait
	_, err = p.Acquire(context.Background(), "reports")
	fmt.Println(err)

	go func() {
		_, _ = r.Value().get("1") // what has a connection can finish its work
		r.Release()
	}()
	select {
	case <-p.Done():
		fmt.Println("nothing is left")
	case <-time.After(time.Minute):
		fmt.Println("somebody does not give back")
	}
	// Output:
	// pool: closed
	// close reports
	// nothing is left
}

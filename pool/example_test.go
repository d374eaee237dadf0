package pool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flyball-go/flyball/pool"
)

type session struct{ service string }

func (s *session) get(key string) (string, error) { return s.service + "/" + key, nil }

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

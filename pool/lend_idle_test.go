package pool_test

import (
	"context"
	"errors"
	"testing"

	"github.com/flyball-go/flyball/pool"
)

func TestLendGivesIdleConnectionsOnly(t *testing.T) {
	opened := 0
	p, err := pool.New(pool.Config[any, int]{Max: 2, MaxUses: 3, Open: func(context.Context, any) (int, error) { opened++; return opened, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if l, ok := p.Lend("a"); ok || l.Value() != 0 {
		t.Error("lent what was never opened")
	}
	if _, ok := p.Lend([]int{}); ok {
		t.Error("lent for what is no key")
	}
	r, _ := p.Reserve("a")
	if _, err := r.Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Lend("a"); ok {
		t.Error("lent what is in use")
	}
	r.Release()
	if _, ok := p.Lend("b"); ok {
		t.Error("lent what belongs to another selector")
	}
	for _, back := range []func(pool.Loan[any, int]){pool.Loan[any, int].Unused, pool.Loan[any, int].Release, pool.Loan[any, int].Release} {
		l, ok := p.Lend("a")
		if !ok || l.Value() != 1 || !l.Ready() || p.Stats().InUse != 1 {
			t.Fatalf("lent %d, %v, %+v", l.Value(), ok, p.Stats())
		}
		back(l)
	}
	if _, ok := p.Lend("a"); ok { // three uses
		t.Error("lent what is worn")
	}
	r, _ = p.Reserve("a")
	if _, err := r.Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Release()
	l, ok := p.Lend("a")
	if !ok || l.Value() != 2 {
		t.Fatalf("lent %d, %v", l.Value(), ok)
	}
	l.Discard(errors.New("broken"))
	if s := p.Stats(); s.InUse != 0 || s.Idle != 0 || s.Discarded != 2 {
		t.Errorf("%+v", s)
	}
	p.Close()
	if _, ok := p.Lend("a"); ok {
		t.Error("lent by a closed pool")
	}
}

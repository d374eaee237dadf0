package fakeads_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// The server refuses and escalates as the engine does, says so in the protocol,
// and the client's own count agrees.
func TestQuotaOnTheWire(t *testing.T) {
	q := vendortest.Quota{Rate: 0.001, Burst: 2, Pause: 10 * time.Second, MaxPause: 25 * time.Second, Grace: 20 * time.Millisecond}
	b := serve(t, fakeads.Config{Quota: q})
	for range 2 {
		if _, err := b.search(b.root(), "SELECT customer.id FROM customer"); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []time.Duration{10 * time.Second, 20 * time.Second, 25 * time.Second, 25 * time.Second} {
		_, err := b.search(b.root(), "SELECT customer.id FROM customer")
		signals := vendors.GoogleAds().Signals(err, time.Now())
		if len(signals) != 1 || signals[0].Scope.Level != throttle.Host || signals[0].Delay != want {
			t.Errorf("refusal %d: %v, signals %v, want %v", i, err, signals, want)
		}
		if st := status.Convert(err); codeOf(err) != "RESOURCE_TEMPORARILY_EXHAUSTED" || !strings.Contains(st.Message(), "Resource has been exhausted (e.g. check quota).") {
			t.Errorf("refusal %d: %v", i, err)
		}
		time.Sleep(30 * time.Millisecond)
	}
	seen := b.server.Seen()
	if seen.Calls != 6 || seen.Refused != 4 || seen.InPause != 3 || seen.Escalations != 3 || seen.LongestPause != 25*time.Second {
		t.Errorf("the server saw %+v", seen)
	}
	// The last pause was as long as the one before and only restarted.
	c := b.meter.Counts()
	if c.Calls != 6 || c.Refused != 4 || b.meter.DuringPause() != 3 || c.Escalations < 2 || c.Longest != 25*time.Second {
		t.Errorf("the client counted %+v, and %d in a pause", c, b.meter.DuringPause())
	}
}

// A limit of one account says so, and leaves the others alone.
func TestAccountQuota(t *testing.T) {
	b := serve(t, fakeads.Config{Quota: ample, AccountQuota: vendortest.Quota{Rate: 0.01, Burst: 3, Pause: time.Minute}})
	ids := b.customers()
	var err error
	for range 4 {
		_, err = b.search(ids[0], daily)
	}
	signals := vendors.GoogleAds().Signals(err, time.Now())
	if len(signals) != 1 || signals[0].Scope.Level != throttle.Tenant || signals[0].Delay != time.Minute {
		t.Fatalf("%v: signals %v", err, signals)
	}
	if _, err := b.search(ids[1], daily); err != nil {
		t.Errorf("another account: %v", err)
	}
	if c, n := b.meter.Counts(), b.meter.DuringPause(); n != 0 || c.Refused != 1 {
		t.Errorf("counted %+v, and %d in a pause", c, n)
	}
	b.search(ids[0], daily)
	if n := b.meter.DuringPause(); n != 1 {
		t.Errorf("counted %d in a pause, want the one", n)
	}
}

func TestDailyOperations(t *testing.T) {
	b := serve(t, fakeads.Config{Quota: ample, DailyOps: 3})
	for range 3 {
		if _, err := b.search(b.root(), "SELECT customer.id FROM customer"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.search(b.root(), "SELECT customer.id FROM customer")
	signals := vendors.GoogleAds().Signals(err, time.Now())
	if len(signals) != 1 || codeOf(err) != "RESOURCE_EXHAUSTED" || signals[0].Kind != throttle.KindQuota || signals[0].Delay < 23*time.Hour {
		t.Errorf("%v: signals %v", err, signals)
	}
	if seen := b.server.Seen(); seen.Refused != 1 || seen.Accepted != 3 {
		t.Errorf("saw %+v", seen)
	}
}

// Goroutines that each obey only their own delay make the pauses grow; that is
// what the example is about.
func TestNaiveClientEscalates(t *testing.T) {
	b := serve(t, fakeads.Config{Latency: 20 * time.Millisecond,
		Quota: vendortest.Quota{Rate: 25, Burst: 5, Pause: 150 * time.Millisecond, MaxPause: 9 * time.Second, Grace: 10 * time.Millisecond}})
	ids := b.customers()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			c := b.conns.Client(adsclient.GoogleAds, 0)
			for ctx.Err() == nil {
				err := c.SearchStream(ctx, adsclient.Access{Customer: ids[0], Login: b.root()}, daily, func([]*adspb.GoogleAdsRow) {})
				if err != nil && ctx.Err() == nil {
					t.Log(err)
				}
				b.meter.Heard(ids[0], err)
				if delay, limited := vendors.GoogleAds().DelayError(err); limited {
					select {
					case <-time.After(delay):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	wg.Wait()
	if seen := b.server.Seen(); seen.Escalations < 3 || seen.Accepted > 3*25*2/3 || seen.LongestPause < time.Second {
		t.Errorf("the server saw %+v", seen)
	}
	if c := b.meter.Counts(); c.Escalations == 0 || b.meter.DuringPause() == 0 {
		t.Errorf("the client counted %+v", c)
	}
}

package browsertest

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/throttle"
)

// TestPictures takes the pictures of the documentation. It takes a while, and is run
// by SHOTS=1 go test -run Pictures.
func TestPictures(t *testing.T) {
	if os.Getenv("SHOTS") == "" {
		t.Skip("SHOTS=1 takes pictures")
	}
	all, by := scene(t.Context(), t)
	url := serve(t, dashboard.Config{Governors: dashboard.Of(all...), Process: "reports@worker-3 (4711)", Guard: func(*http.Request) bool { return true }})
	time.Sleep(10 * time.Second)
	by["googleads"].Learn(refused(throttle.Scope{}, throttle.KindBurst, 5*time.Second, "Quota exceeded for quota metric 'Requests': retry in 5 seconds"))
	time.Sleep(8 * time.Second)
	by["slack"].Pause()
	by["openai"].Learn(refused(throttle.Scope{Level: throttle.Tenant, Key: "customer 1004"}, throttle.KindQuota, 4*time.Minute, "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000"))
	by["googleads"].Learn(refused(throttle.Scope{}, throttle.KindBurst, 15*time.Second, "Quota exceeded for quota metric 'Requests': retry in 15 seconds"))
	by["googleads"].Learn(refused(throttle.Scope{Level: throttle.Tenant, Key: "customer 1009"}, throttle.KindQuota, 90*time.Second, "RESOURCE_EXHAUSTED: operations of the account"))
	time.Sleep(2 * time.Second)
	for _, c := range []struct {
		name  string
		query string
		w, h  int64
		scale float64
		dark  bool
		whole bool
	}{
		{"overview", "/", 1280, 900, 1, false, false},
		{"detail", "/?governor=googleads", 1280, 900, 1, false, true},
		{"detail-dark", "/?governor=googleads", 1280, 900, 1, true, false},
		{"overview-dark", "/", 1280, 900, 1, true, false},
		{"overview-phone", "/", 390, 844, 2, false, false},
		{"detail-phone", "/?governor=googleads", 390, 844, 2, true, false},
		{"breaker", "/?governor=graph.facebook.com", 1280, 900, 1, false, true},
		{"breaker-phone", "/?governor=graph.facebook.com", 390, 844, 2, false, false},
	} {
		t.Run(c.name, func(t *testing.T) { // so that the tab is closed, and its connection
			p := open(t, url+c.query, size(c.w, c.h, c.scale, c.dark))
			p.until("document.querySelectorAll('.card, .panel').length > 0 && document.getElementById('live').dataset.state == 'live'")
			time.Sleep(1200 * time.Millisecond)
			p.shot(c.name, c.whole)
		})
	}
}

// TestPicturesOfTheExample takes those of the README: of a program that runs, at the
// address in EXAMPLE, in its naive and then in its governed mode.
func TestPicturesOfTheExample(t *testing.T) {
	url := os.Getenv("EXAMPLE")
	if url == "" {
		t.Skip("EXAMPLE=http://127.0.0.1:8080 takes pictures of examples/googleads -mode naive,governed -naive-limit 14s")
	}
	for _, mode := range []string{"naive", "governed"} {
		p := open(t, url+"/?governor=googleads,+"+mode, size(1240, 800, 1, false))
		p.until("!document.querySelector('.note')?.checkVisibility() && !!document.querySelector('.badge').textContent")
		if mode == "naive" {
			time.Sleep(8 * time.Second)
		} else {
			time.Sleep(5 * time.Second)
		}
		p.shot("example-"+mode, false)
	}
}

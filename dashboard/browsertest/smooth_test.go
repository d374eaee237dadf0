package browsertest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"

	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// A hundred governors, of which each has something new every second: what the page does
// with one update, by Chromium's trace, leaves a frame of 16 ms its time; on a machine that
// is slower than usual, as many frames as it is times slower.
func TestHundredGovernorsAreSmooth(t *testing.T) {
	const frame = 16 * time.Millisecond
	var all []governor.Handle
	for n := range 100 {
		g := newGovernor(t, governor.Config[string, int]{Name: fmt.Sprintf("vendor-%02d", n), Workers: 4, Limits: bucket(5 + float64(n%7))})
		traffic(t.Context(), t, g, 1, 3, 20*time.Millisecond, 0)
		if n%5 == 0 {
			g.Learn(refused(throttle.Scope{}, throttle.KindBurst, time.Hour, "retry in an hour"))
		}
		all = append(all, g)
	}
	p := open(t, serve(t, dashboard.Config{Governors: dashboard.Of(all...)})+"/", size(1280, 900, 1, false))
	p.until("document.querySelectorAll('.card').length == 100")
	var updates []time.Duration
	var times []float64 // of what a frame may take, in passes that are as slow as the machine is then
	before := p.slower()
	for range 6 {
		pass := perUpdate(p.trace(3 * time.Second))
		after := p.slower()
		for _, took := range pass {
			times = append(times, float64(took)/float64(frame)/((before+after)/2))
		}
		updates, before = append(updates, pass...), after
	}
	p.shot("hundred", false)
	if len(updates) < 6 {
		t.Fatalf("%d updates in 18 s", len(updates))
	}
	slices.Sort(updates)
	slices.Sort(times)
	t.Logf("script, style and layout of %d updates: median %v, most %v; %.2f of what a frame may take here", len(updates), updates[len(updates)/2], updates[len(updates)-1], times[len(times)/2])
	if times[len(times)/2] >= 1 {
		t.Errorf("an update takes %.2f times what a frame may", times[len(times)/2])
	}
}

// span is something that the page's thread did.
type span struct {
	Name   string  `json:"name"`
	Phase  string  `json:"ph"`
	Thread int     `json:"tid"`
	Begin  float64 `json:"ts"` // in µs
	Length float64 `json:"dur"`
}

// trace records what the page does.
func (p *tab) trace(long time.Duration) (all []span) {
	p.t.Helper()
	chunks := chromedp.Events(p.ctx, tracing.DataCollected)
	ends := chromedp.Events(p.ctx, tracing.TracingComplete)
	call := func(f func(context.Context) error) {
		if err := f(p.ctx); err != nil {
			p.t.Fatal(err)
		}
	}
	call(func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, tracing.Start, tracing.StartParams{TransferMode: tracing.StartTransferModeReportEvents,
			TraceConfig: &tracing.TraceConfig{IncludedCategories: []string{"devtools.timeline", "disabled-by-default-devtools.timeline"}, ExcludedCategories: []string{"*"}}})
		return err
	})
	time.Sleep(long)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := range chunks {
			if err != nil {
				return
			}
			for _, v := range ev.Value {
				var s span
				if json.Unmarshal(v, &s) == nil && s.Phase == "X" {
					all = append(all, s)
				}
			}
		}
	}()
	call(func(ctx context.Context) error { _, err := chromedp.Call(ctx, tracing.End, cdp.Empty{}); return err })
	for _, err := range ends {
		if err != nil {
			p.t.Fatal(err)
		}
		break
	}
	time.Sleep(200 * time.Millisecond)
	return all
}

// perUpdate returns for how long each update kept the thread busy with scripts, styles
// and layout. The page draws in an animation frame, the first after the message, and has
// no other: so an update is what was done from shortly before a frame to half a second
// after.
func perUpdate(all []span) (took []time.Duration) {
	counted := []string{"FunctionCall", "FireAnimationFrame", "TimerFire", "UpdateLayoutTree", "Layout", "PrePaint"}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.Begin, b.Begin) })
	for _, m := range all {
		if m.Name != "FireAnimationFrame" {
			continue
		}
		busy, until := 0.0, 0.0
		for _, s := range all {
			if s.Thread != m.Thread || s.Begin < m.Begin-50_000 || s.Begin > m.Begin+450_000 || !slices.Contains(counted, s.Name) {
				continue
			}
			if end := s.Begin + s.Length; end > until { // what is inside another is counted with it
				busy += end - max(s.Begin, until)
				until = end
			}
		}
		took = append(took, time.Duration(busy)*time.Microsecond)
	}
	return took
}

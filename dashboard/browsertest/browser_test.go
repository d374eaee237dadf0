package browsertest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/flyball-go/flyball/dashboard"
)

// chromium is the one browser of all tests. Each test has a tab in it.
var chromium = sync.OnceValues(func() (*running, error) {
	program := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if program == "" {
			program, _ = exec.LookPath(name) // "" goes on
		}
	}
	if program == "" {
		return nil, fmt.Errorf("there is no Chromium: run apt-get install chromium, or set CHROMIUM to its path, or run go test -short")
	}
	profile, err := os.MkdirTemp("", "flyball-browser")
	if err != nil {
		return nil, err
	}
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.WindowSize(1280, 900)}
	for _, f := range []string{"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "hide-scrollbars", "disable-background-timer-throttling", "disable-renderer-backgrounding", "disable-backgrounding-occluded-windows"} {
		opts = append(opts, chromedp.Flag(f, true))
	}
	all, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, leave := chromedp.NewContext(all)
	b := &running{ctx, func() { leave(); stop(); os.RemoveAll(profile) }}
	if err := chromedp.Do(ctx); err != nil {
		b.stop()
		return nil, fmt.Errorf("%s does not start: %w", program, err)
	}
	return b, nil
})

type running struct {
	ctx  context.Context
	stop func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if !testing.Short() {
		if b, err := chromium(); err == nil {
			b.stop()
		}
	}
	os.Exit(code)
}

// soon bounds what would hang otherwise. Nothing is promised to take as long as that.
const soon = time.Minute

// tab is a page of the browser. What it complains of fails the test.
type tab struct {
	t          *testing.T
	ctx        context.Context
	quiet      bool // it may complain
	complaints struct {
		mu   sync.Mutex
		list []string
	}
}

func open(t *testing.T, url string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("no browser under -short")
	}
	b, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := chromedp.NewContext(b.ctx)
	p := &tab{t: t, ctx: ctx}
	heard := make(chan struct{})
	messages := chromedp.Console(ctx)
	go func() {
		defer close(heard)
		for m, err := range messages {
			if err != nil {
				return // the tab is closed
			}
			if m.IsException() || m.Type == "error" || m.Type == "warning" || m.Source == "security" {
				p.complain(m.String())
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-heard
		if p.quiet {
			return
		}
		for _, c := range p.complaints.list {
			t.Errorf("the page complains: %s", c)
		}
	})
	p.run(before...)
	p.run(chromedp.Navigate(url))
	return p
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, soon)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) complain(what string) {
	p.complaints.mu.Lock()
	defer p.complaints.mu.Unlock()
	p.complaints.list = append(p.complaints.list, what)
}

// eval returns what a JavaScript expression, or its promise, is.
func eval[T any](p *tab, js string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, soon)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// until waits for a JavaScript expression to be true, and returns how long that took.
func (p *tab) until(js string) time.Duration {
	p.t.Helper()
	begin := time.Now()
	for !eval[bool](p, js) {
		if time.Since(begin) > soon {
			p.t.Fatalf("not within %v: %s\n%s", soon, js, eval[string](p, "document.body.innerText"))
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begin)
}

func (p *tab) text(sel string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", sel))
}

// size makes the page one of that size, dark or not.
func size(width, height int64, scale float64, dark bool) chromedp.Action[chromedp.Void] {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: scale, Mobile: width < 500,
		}); err != nil {
			return err
		}
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// shot writes a picture of the page, or of all of it, to the folder shots, which git
// ignores.
func (p *tab) shot(name string, whole bool) {
	p.t.Helper()
	res, err := chromedp.Run(p.ctx, func(ctx context.Context, _ *chromedp.Target) (page.CaptureScreenshotResult, error) {
		return chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &whole})
	})
	if err == nil {
		err = os.MkdirAll("shots", 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join("shots", name+".png"), res.Data, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// serve serves a dashboard.
func serve(t *testing.T, cfg dashboard.Config) string {
	t.Helper()
	d, err := dashboard.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(d)
	t.Cleanup(srv.Close)
	t.Cleanup(func() { d.Close() })
	return srv.URL
}

package governor

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// quitter is a limiter that does not return.
type quitter struct {
	limiter.Limiter
	quit func()
}

func (q *quitter) Wait(time.Time, string, int) time.Duration { q.quit(); return 0 }

// quits is how a quitter leaves.
var quits = map[string]func(){"panic": func() { panic("oops") }, "Goexit": runtime.Goexit}

// A limiter that panics or ends its goroutine in somebody's turn leaves a scheduler that
// nobody can use: the process ends, and says why. Nobody waits for ever, and no handler
// of a caller that happened to have the turn keeps it to himself.
func TestLimiterThatDoesNotReturnEndsTheProcess(t *testing.T) {
	const name = "QUITTER"
	if who, how, ok := strings.Cut(os.Getenv(name), ","); ok {
		quitInATurn(t, who, how)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"actor", "caller"} {
		for how, says := range map[string]string{"panic": "panicked: oops", "Goexit": "called runtime.Goexit"} {
			t.Run(who+" "+how, func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestLimiterThatDoesNotReturnEndsTheProcess$", "-test.timeout=1m")
				cmd.Env = append(os.Environ(), name+"="+who+","+how)
				out, err := cmd.CombinedOutput()
				for _, want := range []string{"governor test: the scheduler, or a limiter, breaker or context that it asked, " + says, "(*quitter).Wait"} {
					if !strings.Contains(string(out), want) {
						t.Errorf("%v, without %q:\n%s", err, want, out)
					}
				}
			})
		}
	}
}

// quitInATurn has a limiter quit in a turn of the actor's, or of a caller's: the actor may
// have that of a governor that has just begun.
func quitInATurn(t *testing.T, who, how string) {
	b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 10})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(PlainConfig{Name: "test", NoPace: true, Limits: []Limit{{Limiter: &quitter{b, quits[how]}}}})
	if err != nil {
		t.Fatal(err)
	}
	g.actorOnly = true
	if who == "actor" {
		g.Pause()
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer func() { _ = recover() }()
		f := Submit(context.Background(), g, "", Func(func(context.Context) (int, error) { return 0, nil }))
		if who == "actor" {
			g.Resume()
		}
		_, err := f.Result(context.Background())
		t.Errorf("the request ends with %v", err)
	}()
	<-gone
	t.Fatalf("it goes on, and Close returned %v", g.Close())
}

// A limiter that ends the goroutine of a submitter which has asked nobody for the turn
// ends just that: the slot and the connection go back, and so does the selector, for which
// there would be no room otherwise when others have been.
func TestSubmitterWhoseLimiterDoesNotReturnKeepsNothing(t *testing.T) {
	for how, quit := range quits {
		t.Run(how, func(t *testing.T) {
			b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 10})
			if err != nil {
				t.Fatal(err)
			}
			q := &quitter{b, func() {}}
			direct(t, Config[string, int]{Workers: 1, NoPace: true, Limits: []Limit{{Limiter: q}}, Pool: ints(nil)}, func(t *testing.T, g *Governor[string, int]) {
				if _, err := Do(t.Context(), g, "", answer); err != nil { // opens the connection
					t.Fatal(err)
				}
				q.quit = quit
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					defer func() { _ = recover() }()
					Submit(t.Context(), g, "", answer)
				}()
				<-gone
				q.quit = func() {}
				if s := g.Stats(); s.InFlight != 0 || s.Pool.InUse != 0 {
					t.Errorf("%d slots and %d connections are in use", s.InFlight, s.Pool.InUse)
				}
				if _, err := Submit(t.Context(), g, "", answer).Result(t.Context()); err != nil {
					t.Error(err)
				}
				if n := g.names.peek("").refs.Load(); n != 0 {
					t.Errorf("%d requests are said to use the selector", n)
				}
			})
		})
	}
}

package governor_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/internal/effort"
)

// pause is a closure for Map that takes as many seconds as its input says, and
// returns its square.
func pause(ctx context.Context, _ struct{}, in int) (int, error) {
	if in <= 0 {
		return in * in, context.Cause(ctx)
	}
	select {
	case <-time.After(time.Duration(in) * time.Second):
		return in * in, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

type mapConfig = governor.MapConfig[string, int]

// log ranges over a Map and notes what it was handed and when.
func logged(seq iter.Seq2[governor.Mapped[int, int], error]) string {
	var b strings.Builder
	start := time.Now()
	for m, err := range seq {
		fmt.Fprintf(&b, "%v:%d:%d=%d", time.Since(start), m.Index, m.In, m.Out)
		if err != nil {
			fmt.Fprintf(&b, "!")
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func TestMapHandsOutResultsInTheirOrder(t *testing.T) {
	in := slices.Values([]int{3, 1, 2, 1})
	for name, c := range map[string]struct {
		cfg  *mapConfig
		want string
	}{
		"nil":       {nil, "3s:0:3=9 3s:1:1=1 3s:2:2=4 3s:3:1=1 "},
		"ordered":   {&mapConfig{Window: 2}, "3s:0:3=9 3s:1:1=1 5s:2:2=4 5s:3:1=1 "},
		"unordered": {&mapConfig{Window: 2, Unordered: true}, "1s:1:1=1 3s:0:3=9 3s:2:2=4 4s:3:1=1 "},
		"one":       {&mapConfig{Window: 1}, "3s:0:3=9 4s:1:1=1 6s:2:2=4 7s:3:1=1 "},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				seq := governor.Map(t.Context(), g, "", in, pause, c.cfg)
				got := logged(seq)
				if name == "unordered" { // two end at 3 s: either may be first
					got = strings.Replace(got, "3s:2:2=4 3s:0:3=9", "3s:0:3=9 3s:2:2=4", 1)
				}
				if got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if s := g.Stats(); s.Submitted != 4 {
					t.Errorf("%d submitted", s.Submitted)
				}
				logged(seq) // again
				if s := g.Stats(); s.Submitted != 8 {
					t.Errorf("%d submitted", s.Submitted)
				}
			})
		})
	}
}

// numbers counts how far it is read.
func numbers(n int, read *int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			*read = i + 1
			if !yield(i % 3) {
				return
			}
		}
	}
}

func TestMapReadsNoFurtherThanItsWindow(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			read, handed := 0, 0
			seq := governor.Map(t.Context(), g, "", numbers(1000, &read), pause, &mapConfig{Window: 20, Unordered: unordered})
			if read != 0 {
				t.Error("something happened before the loop")
			}
			most := 0
			for m, err := range seq {
				if err != nil || m.Out != m.In*m.In || m.In != m.Index%3 || !unordered && m.Index != handed {
					t.Errorf("%+v, %v", m, err)
				}
				most = max(most, read-handed)
				handed++
				if handed%100 == 0 {
					time.Sleep(time.Minute) // a slow body: nothing is read meanwhile
				}
			}
			if handed != 1000 || most != 20 {
				t.Errorf("%d results, at most %d ahead, want 1000 and 20", handed, most)
			}
		})
	}
}

func TestMapAsksForEachInput(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		done := make(chan string)
		go func() {
			done <- logged(governor.Map(t.Context(), g, "none", slices.Values([]int{1, 2}), pause, &mapConfig{
				Ask:      func(in int) governor.Ask { return governor.Ask{Tenant: fmt.Sprint("t", in)} },
				Selector: func(in int) string { return fmt.Sprint("s", in) },
			}))
		}()
		synctest.Wait()
		var lanes []string
		for _, l := range g.Stats().Lanes {
			lanes = append(lanes, l.Tenant+l.Selector)
		}
		if fmt.Sprint(lanes) != "[t1s1 t2s2]" {
			t.Errorf("lanes %v", lanes)
		}
		g.Resume()
		if got := <-done; got != "1s:0:1=1 3s:1:2=4 " {
			t.Error(got)
		}
	})
}

func TestMapGoesOnAfterErrorsUnlessToldToStop(t *testing.T) {
	fn := func(ctx context.Context, c struct{}, in int) (int, error) {
		if in == 2 {
			time.Sleep(2 * time.Second)
			return 7, errors.New("two")
		}
		return pause(ctx, c, in)
	}
	in := slices.Values([]int{1, 2, 3, 9, 1})
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		if got := logged(governor.Map(t.Context(), g, "", in, fn, nil)); got != "1s:0:1=1 2s:1:2=7! 3s:2:3=9 9s:3:9=81 9s:4:1=1 " {
			t.Error(got)
		}
		start := time.Now()
		if got := logged(governor.Map(t.Context(), g, "", in, fn, &mapConfig{StopOnError: true})); got != "1s:0:1=1 2s:1:2=7! " {
			t.Error(got)
		}
		since(t, "the end", start, time.Now(), 2*time.Second) // what ran was cancelled
	})
}

func TestMapGivesEverythingBackHoweverTheLoopEnds(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		bubble(t, func(c *governor.PlainConfig) { c.Workers = 2 }, func(t *testing.T, g *governor.Plain) {
			seq := governor.Map(t.Context(), g, "", numbers(100, new(int)), func(ctx context.Context, _ struct{}, in int) (int, error) {
				if in == 0 {
					return 0, nil
				}
				<-ctx.Done()
				time.Sleep(time.Second) // it takes its time to leave
				return 0, ctx.Err()
			}, &mapConfig{Window: 10, Unordered: unordered})
			recovered := func(what any, fn func()) {
				defer func() {
					if v := recover(); v != what {
						t.Errorf("recovered %v, want %v", v, what)
					}
				}()
				fn()
			}
			bad := func(yield func(int) bool) {
				if yield(0) {
					panic("seq")
				}
			}
			for name, loop := range map[string]func(){
				"break": func() {
					for range seq {
						break
					}
				},
				"panic in the body": func() {
					recovered("body", func() {
						for range seq {
							panic("body")
						}
					})
				},
				"Goexit in the body": func() {
					done := make(chan struct{})
					go func() {
						defer close(done)
						for range seq {
							runtime.Goexit()
						}
					}()
					<-done
				},
				"panic in the input": func() {
					recovered("seq", func() { logged(governor.Map(t.Context(), g, "", bad, pause, &mapConfig{Unordered: unordered})) })
				},
				"panic in Ask": func() {
					recovered("ask", func() {
						logged(governor.Map(t.Context(), g, "", slices.Values([]int{5, 6}), pause, &mapConfig{Unordered: unordered, Ask: func(in int) governor.Ask {
							if in == 6 {
								panic("ask")
							}
							return governor.Ask{}
						}}))
					})
				},
			} {
				loop()
				if s := g.Stats(); s.InFlight != 0 || s.Queued != 0 {
					t.Errorf("after %s: %d in flight, %d queued", name, s.InFlight, s.Queued)
				}
			}
		})
	}
}

func TestMapEndsWithItsContext(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		bubble(t, func(c *governor.PlainConfig) { c.Workers = 2 }, func(t *testing.T, g *governor.Plain) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			start, read := time.Now(), 0
			results, cancelled := 0, 0
			for _, err := range governor.Map(ctx, g, "", numbers(1000, &read), func(ctx context.Context, _ struct{}, _ int) (int, error) {
				return pause(ctx, struct{}{}, 2)
			}, &mapConfig{Window: 6, Unordered: unordered}) {
				if results++; err != nil {
					if cancelled++; !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				}
			}
			since(t, "the end", start, time.Now(), 5*time.Second)
			if results != read || cancelled != results-4 || read > 4+6+1 {
				t.Errorf("%d inputs, %d results, %d cancelled", read, results, cancelled)
			}
		})
	}
}

func TestMapEndsWithItsGovernor(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		read, errs := 0, 0
		for _, err := range governor.Map(t.Context(), g, "", numbers(1000, &read), pause, &mapConfig{Window: 6}) {
			if err != nil {
				if errs++; !errors.Is(err, governor.ErrClosed) {
					t.Error(err)
				}
			}
			if read >= 100 {
				g.Close()
			}
		}
		if read > 108 || errs < 1 {
			t.Errorf("%d inputs, %d errors", read, errs)
		}
	})
}

func TestMapThatCannotBegin(t *testing.T) {
	var none context.Context
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		in := slices.Values([]int{1, 2})
		for name, seq := range map[string]iter.Seq2[governor.Mapped[int, int], error]{
			"governor: nil context":                            governor.Map(none, g, "", in, pause, nil),
			"governor: nil function":                           governor.Map[string, struct{}, int, int](t.Context(), g, "", in, nil, nil),
			"governor: nil function ":                          governor.Map(t.Context(), g, "", nil, pause, nil),
			"governor: MapConfig.Window is -1, want 0 or more": governor.Map(t.Context(), g, "", in, pause, &mapConfig{Window: -1}),
		} {
			n := 0
			for m, err := range seq {
				if n++; m.Index != -1 || err == nil || err.Error() != strings.TrimSpace(name) {
					t.Errorf("%+v, %v, want %s", m, err, name)
				}
			}
			if n != 1 {
				t.Errorf("%s: %d turns, want 1", name, n)
			}
		}
	})
}

// In a closure, a Map may use the slots that are spare, and no more; it never waits
// for itself.
func TestMapInsideAClosure(t *testing.T) {
	for workers, want := range map[int]string{
		1: "0s:0:1=0! 0s:1:1=0! 0s:2:1=0! ",
		2: "1s:0:1=1 2s:1:1=1 3s:2:1=1 ",
		3: "1s:0:1=1 1s:1:1=1 2s:2:1=1 ",
		9: "1s:0:1=1 1s:1:1=1 1s:2:1=1 ",
	} {
		bubble(t, func(c *governor.PlainConfig) { c.Workers = workers }, func(t *testing.T, g *governor.Plain) {
			got, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (string, error) {
				return logged(governor.Map(ctx, g, "", func(yield func(int) bool) {
					for range 3 {
						synctest.Wait() // what was submitted runs, if it can
						if !yield(1) {
							return
						}
					}
				}, pause, nil)), nil
			}))
			if got != want || err != nil {
				t.Errorf("%d workers: %s, %v, want %s", workers, got, err, want)
			}
		})
	}
}

// Whatever happens to them, each input that was read is answered once, with what it
// came to, unless the loop left.
func TestMapAnswersEachInputOnce(t *testing.T) {
	for seed := range uint64(effort.Times(8)) {
		bubble(t, func(c *governor.PlainConfig) {
			c.Workers, c.MaxQueue = 3, 5
			c.Overflow = governor.Overflow(seed % 4)
			c.MinCooldown = time.Millisecond
		}, func(t *testing.T, g *governor.Plain) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var running, calls atomic.Int64
			var refused [300]atomic.Bool
			plan := make([]int, 300)
			for i := range plan {
				plan[i] = rnd.IntN(9)
			}
			fn := func(ctx context.Context, _ struct{}, in int) (int, error) {
				calls.Add(1)
				running.Add(1)
				defer running.Add(-1)
				switch plan[in] {
				case 0:
					if !refused[in].Swap(true) {
						return in, governortest.Limited(3 * time.Millisecond)
					}
				case 1:
					panic("fn")
				case 2:
					runtime.Goexit()
				case 3:
					if calls.Load()%2 == 0 {
						return 0, governor.Again(5 * time.Millisecond)
					}
				case 4:
					return in, errors.New("failed")
				case 5:
					time.Sleep(time.Duration(in%7) * time.Millisecond)
				}
				return in, nil
			}
			leave := rnd.IntN(600) // often never
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			unordered := seed%2 == 1
			seen, read, window := map[int]bool{}, 0, 1+rnd.IntN(12)
			for m, err := range governor.Map(ctx, g, "", func(yield func(int) bool) {
				for i := range plan {
					if read++; !yield(i) {
						return
					}
				}
			}, fn, &mapConfig{Window: window, Unordered: unordered}) {
				if seen[m.Index] || m.In != m.Index || !unordered && m.Index != len(seen) {
					t.Fatalf("%+v after %d", m, len(seen))
				}
				seen[m.Index] = true
				if err == nil && m.Out != m.In {
					t.Errorf("%+v", m)
				}
				if read-len(seen) > window {
					t.Errorf("%d ahead, window %d", read-len(seen), window)
				}
				if leave == len(seen) {
					if seed%3 == 0 {
						break
					}
					cancel()
				}
			}
			if running.Load() != 0 {
				t.Errorf("%d still run", running.Load())
			}
			if s := g.Stats(); s.Queued != 0 || s.InFlight != 0 {
				t.Errorf("%d queued, %d in flight", s.Queued, s.InFlight)
			}
			if ctx.Err() == nil && leave > len(plan) && len(seen) != len(plan) || ctx.Err() != nil && len(seen) != read {
				t.Errorf("%d results of %d read", len(seen), read)
			}
		})
	}
}

// A Map of many costs no more memory than one of few.
func TestMapKeepsNoMoreThanItsWindow(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "test", NoPace: true})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	type big [1 << 10]byte
	inputs := func(yield func(*big) bool) {
		for range 20_000 {
			if !yield(new(big)) {
				return
			}
		}
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, n := heap(), 0
	for m, err := range governor.Map(t.Context(), g, "", inputs, func(_ context.Context, _ struct{}, in *big) (*big, error) { return in, nil }, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 19_000 {
			if kept := heap() - before; kept > 4<<20 {
				t.Errorf("%d bytes are kept after %d inputs of 1 KiB", kept, n)
			}
		}
		runtime.KeepAlive(m)
	}
	if n != 20_000 {
		t.Errorf("%d results", n)
	}
}

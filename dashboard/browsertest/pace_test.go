package browsertest

import (
	"sync"
	"testing"
	"time"
)

// slower says how many times as slow as usual the page's thread is now, or 1: usual is
// what the machine of the README's tables takes to build and lay out a hundred cards
// without any of our code. Where time is what is promised, it is promised of that one.
func (p *tab) slower() float64 {
	p.t.Helper()
	const usual = 15.0 // ms
	took := eval[float64](p, `(() => {
		const took = [];
		for (let round = 0; round < 21; round++) {
			const begin = performance.now();
			const all = document.createElement("div");
			for (let card = 0; card < 100; card++) {
				const c = all.appendChild(document.createElement("section"));
				for (let line = 0; line < 10; line++) c.appendChild(document.createElement("p")).textContent = card + " of " + round;
			}
			document.body.appendChild(all);
			all.offsetHeight;
			took.push(performance.now() - begin);
			all.remove();
		}
		return took.sort((a, b) => a - b)[10];
	})()`)
	p.t.Logf("a hundred plain cards take %.1f ms, usual are %.1f", took, usual)
	return max(1, took/usual)
}

// stalls returns a function that says for how long, in all, the machine has let nobody
// run since.
func stalls(t *testing.T) (sum func() time.Duration) {
	const each = 10 * time.Millisecond
	var mu sync.Mutex // guards lost
	var lost time.Duration
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			begin := time.Now()
			select {
			case <-time.After(each):
			case <-end:
				return
			}
			if late := time.Since(begin) - each; late > each {
				mu.Lock()
				lost += late
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { close(end); <-ended })
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return lost
	}
}

package crowd

import (
	"net/http"
	"sync"
	"time"
)

// Together is h, to which the first n calls come at the same time: none is answered
// before all are there, so that what is said to one can keep no other from coming. It
// waits 5 s for them.
func Together(n int, h http.Handler) http.Handler {
	var mu sync.Mutex
	come, all := 0, make(chan struct{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if come++; come == n {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
		case <-time.After(5 * time.Second):
		}
		h.ServeHTTP(w, r)
	})
}

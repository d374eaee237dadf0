package browsertest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// door is a server whose streams can be broken.
type door struct {
	to     http.Handler
	srv    *httptest.Server
	mu     sync.Mutex
	closed bool
}

func (d *door) serve(t *testing.T) string {
	d.srv = httptest.NewServer(d)
	t.Cleanup(d.srv.Close)
	return d.srv.URL
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	d.to.ServeHTTP(w, r)
}

func (d *door) shut(yes bool) {
	d.mu.Lock()
	d.closed = yes
	d.mu.Unlock()
	if yes {
		d.srv.CloseClientConnections()
	}
}

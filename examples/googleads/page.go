package main

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/governor"
)

// page is the live page of -dashboard. It shows the governors of all modes that have
// begun, and nobody can do anything to them by it. A nil page shows nothing.
type page struct {
	board    *dashboard.Dashboard
	server   *http.Server
	listener net.Listener
	served   chan struct{} // closed when the server has ended

	mu    sync.Mutex // guards what follows
	shown []governor.Handle
}

func servePage(address string) (*page, error) {
	p := &page{served: make(chan struct{})}
	var err error
	if p.board, err = dashboard.New(dashboard.Config{Governors: p.governors, Process: "examples/googleads"}); err != nil {
		return nil, err
	}
	if p.listener, err = net.Listen("tcp", address); err != nil {
		p.board.Close()
		return nil, err
	}
	p.server = &http.Server{Handler: p.board, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(p.served)
		p.server.Serve(p.listener) // until close
	}()
	return p, nil
}

func (p *page) governors() []governor.Handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.shown)
}

func (p *page) show(g governor.Handle) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = append(p.shown, g)
}

func (p *page) close() {
	p.board.Close()
	p.server.Close()
	<-p.served
}

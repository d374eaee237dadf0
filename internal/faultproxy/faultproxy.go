// Package faultproxy is a TCP proxy for tests that does to connections what networks
// do: it delays and jitters what passes, loses it one way, cuts connections, resets
// them, and swallows the answers to requests that arrived.
//
//	p, err := faultproxy.Listen("127.0.0.1:6379")
//	client.Dial(p.Addr())
//	p.Set(faultproxy.Fault{Delay: 20 * time.Millisecond, Jitter: 10 * time.Millisecond})
//	p.Cut()
//
// A Proxy may be used by any number of goroutines at once, and must be closed.
//
// It knows no protocol but what a Fault's Lose knows, and loses no single packets: below TCP nothing is reached.
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is what happens to bytes on their way. The zero value does nothing. It is
// looked at for each piece that is read, so that a change counts for what comes after
// it, on connections there are as on new ones.
type Fault struct {
	// Delay, and up to Jitter more, is how late a piece is passed on, each way.
	// Pieces stay in order; a second one does not wait twice.
	Delay, Jitter time.Duration

	// DropRequests loses what clients send, DropAnswers what the server does: the
	// request was forwarded, its answer is swallowed. A connection of which anything
	// was lost never passes anything again in that direction, as half a message is
	// none.
	DropRequests, DropAnswers bool

	// Lose says of a piece, which clients sent if up, whether it is lost, and with it what
	// comes after it: so of one connection among others. It may be called by several
	// goroutines at once. nil: nothing is lost.
	Lose func(up bool, piece []byte) bool

	// CutAfter closes connections when so many bytes of the server's have been
	// passed on since the fault was set: in the middle of an answer, as likely as
	// not. 0: never.
	CutAfter int64

	// Refuse closes new connections at once.
	Refuse bool
}

// Proxy forwards connections to a server.
type Proxy struct {
	listener net.Listener
	target   string
	fault    atomic.Pointer[setting]
	stop     context.CancelFunc
	ctx      context.Context
	work     sync.WaitGroup // the accepting goroutine, and four of each connection

	// mu guards pairs. Nothing that blocks is done under it but to close sockets.
	mu    sync.Mutex
	pairs map[*pair]struct{}

	swallowed, passed atomic.Int64
}

// setting is a Fault and what has happened since it was set.
type setting struct {
	Fault
	answered atomic.Int64 // bytes of servers'
}

// Listen starts a Proxy to target, on a free port of the loopback interface.
func Listen(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}
	p := &Proxy{listener: l, target: target, pairs: make(map[*pair]struct{})}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.Set(Fault{})
	p.work.Go(p.accept)
	return p, nil
}

// Addr is the address at which the Proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set replaces the fault.
func (p *Proxy) Set(f Fault) { p.fault.Store(&setting{Fault: f}) }

// Swallowed is how many pieces were lost by DropRequests and DropAnswers.
func (p *Proxy) Swallowed() int64 { return p.swallowed.Load() }

// Passed is how many bytes were passed on, of both directions.
func (p *Proxy) Passed() int64 { return p.passed.Load() }

// Open is how many connections there are.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

// Cut closes all connections, as a peer that ends does. New ones are taken.
func (p *Proxy) Cut() { p.closeAll(false) }

// Reset closes all connections with a TCP reset, as a peer that has crashed does.
func (p *Proxy) Reset() { p.closeAll(true) }

func (p *Proxy) closeAll(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		if reset {
			c.client.SetLinger(0)
			c.server.SetLinger(0)
		}
		c.close()
	}
}

// Close ends the Proxy and its connections, and returns when nothing of it is left.
// It may be called again.
func (p *Proxy) Close() error {
	p.stop()
	err := p.listener.Close()
	p.Cut()
	p.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		if p.fault.Load().Refuse {
			c.Close()
			continue
		}
		p.work.Go(func() { p.join(c.(*net.TCPConn)) })
	}
}

// join dials the server for a client, and passes on what either says.
func (p *Proxy) join(client *net.TCPConn) {
	defer client.Close()
	var d net.Dialer
	s, err := d.DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		return
	}
	c := &pair{client: client, server: s.(*net.TCPConn), p: p, gone: make(chan struct{})}
	p.mu.Lock()
	p.pairs[c] = struct{}{}
	p.mu.Unlock()
	if p.ctx.Err() != nil { // Close may have cut before c was there
		c.close()
	}
	c.run()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

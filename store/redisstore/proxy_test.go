package redisstore

import (
	"io"
	"maps"
	"net"
	"sync"
	"testing"
)

// proxy is a network between a client and a server, that can be broken.
type proxy struct {
	addr string
	l    net.Listener
	work sync.WaitGroup

	mu    sync.Mutex
	to    string            // of connections to come
	conns map[net.Conn]bool // guarded by mu
	reply func(from []byte, to net.Conn) bool
	dark  bool              // nothing gets through
	dumb  map[net.Conn]bool // nor to these, which silence has met
}

// through returns a proxy before the server at to.
func through(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), to: to, l: l, conns: make(map[net.Conn]bool), dumb: make(map[net.Conn]bool)}
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.work.Wait()
	})
	return p
}

// onReply has f get what servers say: what it returns false of ends the connection.
func (p *proxy) onReply(f func(from []byte, to net.Conn) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply = f
}

// darken has everything that is sent vanish, with no word to either end.
func (p *proxy) darken() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dark = true
}

// silence does so with the connections that there are, and not with new ones.
func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.dumb, p.conns)
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) serve(c net.Conn) {
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	s, err := net.Dial("tcp", to)
	if err != nil {
		c.Close()
		return
	}
	p.mu.Lock()
	p.conns[c], p.conns[s] = true, true
	p.mu.Unlock()
	end := func() { c.Close(); s.Close() }
	p.work.Go(func() { defer end(); p.copy(s, c, false) })
	defer end()
	p.copy(c, s, true)
}

func (p *proxy) copy(to, from net.Conn, replies bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		dark, reply := p.dark || p.dumb[to], p.reply
		p.mu.Unlock()
		switch {
		case n == 0 || dark:
		case replies && reply != nil:
			if !reply(buf[:n], to) {
				return
			}
		default:
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				return
			}
			return
		}
	}
}

package fakeads

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// mux splits the connections of one listener by their first bytes: gRPC begins
// with the preface of HTTP/2, anything else is plain HTTP.
type mux struct {
	lis         net.Listener
	grpc, plain *branch
	done        chan struct{} // closed by Close

	mu      sync.Mutex // guards the fields below
	closed  bool
	pending map[net.Conn]bool // those whose first bytes have not come
	sniffs  sync.WaitGroup    // a goroutine for each
}

const preface = "PRI "

// patience is how long a connection may take for its first bytes.
const patience = 10 * time.Second

func newMux(lis net.Listener) *mux {
	m := &mux{lis: lis, done: make(chan struct{}), pending: map[net.Conn]bool{}}
	m.grpc = &branch{m: m, conns: make(chan net.Conn)}
	m.plain = &branch{m: m, conns: make(chan net.Conn)}
	return m
}

// run accepts until Close, and returns when no goroutine of the mux is left.
func (m *mux) run() {
	for {
		c, err := m.lis.Accept()
		if err != nil {
			m.Close() // whatever is wrong, nothing more will come
			m.sniffs.Wait()
			return
		}
		if !m.expect(c) {
			c.Close()
			continue
		}
		m.sniffs.Go(func() { m.sniff(c) })
	}
}

// expect takes note of a connection, for Close to end it.
func (m *mux) expect(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.pending[c] = true
	}
	return !m.closed
}

// sniff finds out what a connection is and hands it to its branch.
func (m *mux) sniff(c net.Conn) {
	s := &sniffed{Conn: c, r: bufio.NewReader(c)}
	err := c.SetReadDeadline(time.Now().Add(patience))
	var first []byte
	if err == nil {
		first, err = s.r.Peek(len(preface))
	}
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	m.mu.Lock()
	delete(m.pending, c)
	m.mu.Unlock()
	to := m.plain
	if string(first) == preface {
		to = m.grpc
	}
	if err == nil {
		select {
		case to.conns <- s:
			return
		case <-m.done:
		}
	}
	c.Close()
}

// Close ends run and both branches, and breaks off connections that nobody has
// accepted.
func (m *mux) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	close(m.done)
	for c := range m.pending {
		c.Close() // its sniff returns
	}
	return m.lis.Close()
}

// branch is one of the two listeners that a mux makes out of its own.
type branch struct {
	m     *mux
	conns chan net.Conn
}

// Accept returns the next connection of the branch.
func (b *branch) Accept() (net.Conn, error) {
	select {
	case c := <-b.conns:
		return c, nil
	case <-b.m.done:
		return nil, net.ErrClosed
	}
}

// Close closes the whole mux.
func (b *branch) Close() error { return b.m.Close() }

// Addr is the address of the mux.
func (b *branch) Addr() net.Addr { return b.m.lis.Addr() }

// sniffed is a connection whose first bytes have been read ahead.
type sniffed struct {
	net.Conn
	r *bufio.Reader
}

// Read reads what was read ahead first.
func (s *sniffed) Read(p []byte) (int, error) {
	if s.r.Buffered() > 0 || len(p) == 0 {
		return s.r.Read(p)
	}
	return s.Conn.Read(p)
}

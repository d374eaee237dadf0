package faultproxy

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// pair is a client's connection and the one to the server that belongs to it.
type pair struct {
	p              *Proxy
	client, server *net.TCPConn
	once           sync.Once
	gone           chan struct{} // closed with both
}

// piece is what one read gave, and when it may be passed on.
type piece struct {
	b   []byte
	due time.Time
}

// run passes on what both sides say, until one has closed.
func (c *pair) run() {
	var both sync.WaitGroup
	for _, up := range []bool{true, false} {
		from, to := c.server, c.client
		if up {
			from, to = c.client, c.server
		}
		pieces := make(chan piece, 64) // what is on its way; more waits in the sockets
		both.Go(func() { c.read(from, pieces, up) })
		both.Go(func() { c.write(to, pieces, up) })
	}
	both.Wait()
}

func (c *pair) close() {
	c.once.Do(func() {
		close(c.gone)
		c.client.Close()
		c.server.Close()
	})
}

// read takes pieces from one side. Whatever ends it ends the connection, when what
// came before has been passed on: there is no half-closed one.
func (c *pair) read(from net.Conn, pieces chan<- piece, up bool) {
	defer close(pieces)
	buf := make([]byte, 32<<10)
	lost := false
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		f := c.p.fault.Load()
		if lost = lost || up && f.DropRequests || !up && f.DropAnswers || f.Lose != nil && f.Lose(up, buf[:n]); lost {
			c.p.swallowed.Add(1)
			continue // read on: the sender is to notice nothing
		}
		due := time.Now().Add(f.Delay)
		if f.Jitter > 0 {
			due = due.Add(rand.N(f.Jitter))
		}
		select {
		case pieces <- piece{append([]byte(nil), buf[:n]...), due}:
		case <-c.gone:
			return
		}
	}
}

// write passes pieces on to the other side, each when it is due.
func (c *pair) write(to net.Conn, pieces <-chan piece, up bool) {
	defer c.close()
	for pc := range pieces {
		if wait := time.Until(pc.due); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-c.gone:
				timer.Stop()
				return
			}
		}
		f, cut := c.p.fault.Load(), false
		if !up && f.CutAfter > 0 {
			over := f.answered.Add(int64(len(pc.b))) - f.CutAfter
			if cut = over >= 0; cut {
				pc.b = pc.b[:max(0, int64(len(pc.b))-over)]
			}
		}
		c.p.passed.Add(int64(len(pc.b))) // first: who has read it finds it counted
		if _, err := to.Write(pc.b); err != nil || cut {
			return
		}
	}
}

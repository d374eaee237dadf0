package redisstore

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"syscall"
	"time"
)

// conns opens the connections of a Store's client, and knows those that are open.
type conns struct {
	cfg *Config

	mu   sync.Mutex
	open map[*conn]bool // guarded by mu
}

// conn is one of them.
type conn struct {
	net.Conn
	of *conns
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// rawConn is one that the client can look at without reading, to find out whether the
// server has closed it.
type rawConn struct {
	*conn
	syscall.Conn
}

// dial opens a connection, if it may be.
func (cs *conns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := cs.cfg.safe(addr); err != nil { // a sentinel, or a Cluster, may name any
		return nil, err
	}
	d := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: time.Minute}
	if addr[0] == '/' {
		network = "unix"
	}
	dial := d.DialContext
	if cs.cfg.TLS != nil && network != "unix" {
		dial = (&tls.Dialer{NetDialer: d, Config: cs.cfg.TLS}).DialContext
	}
	nc, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{nc, cs}
	cs.mu.Lock()
	cs.open[c] = true
	cs.mu.Unlock()
	if raw, ok := nc.(syscall.Conn); ok {
		return rawConn{c, raw}, nil
	}
	return c, nil
}

// closeAll closes what is open. The client opens others.
func (cs *conns) closeAll() {
	cs.mu.Lock()
	open := make([]*conn, 0, len(cs.open))
	for c := range cs.open {
		open = append(open, c)
	}
	cs.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

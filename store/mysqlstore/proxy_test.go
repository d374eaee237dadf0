package mysqlstore_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between clients and a server: it rewrites statements, which makes
// broken engines of a right one, and cuts connections at a statement.
type proxy struct {
	addr   string
	target string

	mu sync.Mutex // guards what follows
	// rewrite is given each statement of each connection, from 0.
	rewrite func(conn int, sql string) string
	// fate is asked what to do with each command, which is a statement's text if it
	// has one; one that is executed after it was prepared has executes before it.
	fate  func(sql string) fate
	conns map[net.Conn]bool
	n     int
}

// fate is what becomes of a command.
type fate int

const (
	passes    fate = iota
	isCut          // it does not reach the server
	isUnheard      // it does, and the reply does not come back
)

// executes is before the text of a prepared statement.
const executes = "execute: "

func newProxy(t testing.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{addr: l.Addr().String(), target: target, conns: make(map[net.Conn]bool)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cutAll()
		wg.Wait()
	})
	return p
}

// set changes what happens to later commands.
func (p *proxy) set(rewrite func(conn int, sql string) string, fate func(sql string) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rewrite, p.fate = rewrite, fate
}

// cutAll ends all connections.
func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// decide says what becomes of a command.
func (p *proxy) decide(conn int, sql string) (string, fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := passes
	if p.fate != nil {
		f = p.fate(sql)
	}
	if p.rewrite != nil && sql != "" && !strings.HasPrefix(sql, executes) {
		sql = p.rewrite(conn, sql)
	}
	return sql, f
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.n++
	n := p.n
	p.conns[client] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
	}()
	var prepared sync.Map // texts of statements, by their ids
	preparing := make(chan string, 1)
	replies := make(chan bool, 1) // whether to pass on what comes next
	replies <- true
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		b := make([]byte, 64<<10)
		for {
			n, err := server.Read(b)
			select {
			case sql := <-preparing: // the first of the reply, which has the id
				if n > 8 && b[4] == 0 {
					prepared.Store(binary.LittleEndian.Uint32(b[5:]), sql)
				}
			default:
			}
			pass := <-replies
			replies <- pass
			if err != nil || !pass {
				return
			}
			if _, err := client.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	for first := true; ; first = false {
		head := make([]byte, 4)
		if _, err := io.ReadFull(client, head); err != nil {
			break
		}
		size := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		body := make([]byte, size)
		if _, err := io.ReadFull(client, body); err != nil {
			break
		}
		// A command begins anew with number 0. What the handshake needs does not.
		if command := !first && head[3] == 0 && size > 0; command && body[0] != 0x01 && body[0] != 0x19 { // quit, and close of a statement
			text := body[0] == 0x03 || body[0] == 0x16 // a query, and to prepare one
			sql := ""
			if text {
				sql = string(body[1:])
			}
			if body[0] == 0x17 && size > 4 {
				of, _ := prepared.Load(binary.LittleEndian.Uint32(body[1:]))
				sql = executes + fmt.Sprint(of)
			}
			sql, fate := p.decide(n, sql)
			if text {
				body = append(body[:1], sql...)
			}
			if body[0] == 0x16 {
				preparing <- sql
			}
			if fate == isCut {
				break
			}
			if fate == isUnheard {
				<-replies
				replies <- false
			}
		}
		binary.LittleEndian.PutUint32(head, uint32(len(body))|uint32(head[3])<<24)
		if _, err := server.Write(append(head, body...)); err != nil {
			break
		}
		if pass := <-replies; !pass { // until the reply is there
			replies <- pass
			<-done
			break
		} else {
			replies <- pass
		}
	}
	server.Close()
	client.Close()
	<-done
}

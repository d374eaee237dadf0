package httpx

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// ErrBodyCut is what reading the body of a failed answer ends with where that was
// longer than 64 KiB and its request went on, to be sent again: while it waited for
// that it held no connection from which there would be more to read.
var ErrBodyCut = errors.New("httpx: body is longer than what is kept of a failed answer")

// maxPeek is how much of a body is read before its answer is returned.
const maxPeek = 64 << 10

// body is what the caller reads of an exchange: the real one, with whose end the
// attempt's does.
type body exchange

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.real.Read(p)
	if err != nil {
		b.ended(err)
	}
	return n, err
}

// ended says how reading ended.
func (b *body) ended(err error) {
	if err == io.EOF || b.closing.Load() { // which fails a Read elsewhere
		err = nil
	}
	x := (*exchange)(b)
	x.unwatched()
	x.done(err)
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.closing.Store(true)
	err := b.real.Close()
	b.ended(io.EOF)
	return err
}

// peeked is a body of which something has been read.
type peeked struct {
	head []byte
	err  error         // that follows; nil: rest does
	rest io.ReadCloser // nil: closed

	closed atomic.Bool // Close may come beside Read
}

// Read implements io.Reader.
func (p *peeked) Read(b []byte) (int, error) {
	switch {
	case p.closed.Load():
		return 0, errClosedBody
	case len(p.head) > 0:
		n := copy(b, p.head)
		p.head = p.head[n:]
		return n, nil
	case p.err != nil:
		return 0, p.err
	case len(b) == 0:
		return 0, nil
	}
	return p.rest.Read(b)
}

// Close implements io.Closer.
func (p *peeked) Close() error {
	if p.closed.Store(true); p.rest != nil {
		return p.rest.Close()
	}
	return nil
}

var errClosedBody = errors.New("httpx: read on a closed body")

// peek reads up to n bytes of resp's body and puts one in its place that begins with
// them. A body that has ended, well or not, is closed, and holds nothing more.
func peek(resp *http.Response, n int) *peeked {
	p := &peeked{rest: resp.Body}
	resp.Body = p
	size := n
	if l := resp.ContentLength; l >= 0 && l < int64(n) {
		size = int(l) + 1 // to see its end
	}
	buf := make([]byte, 0, min(size, 4<<10))
	for idle := 0; len(buf) < n && p.err == nil; {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(n, 4*cap(buf))), buf...)
		}
		var m int
		m, p.err = p.rest.Read(buf[len(buf):cap(buf)])
		if buf = buf[:len(buf)+m]; m > 0 {
			idle = 0
		} else if idle++; idle > 100 && p.err == nil {
			p.err = io.ErrNoProgress
		}
	}
	p.head = buf
	if p.err != nil {
		p.rest.Close()
		p.rest = nil
	}
	return p
}

// cut lets go what has not been read.
func (p *peeked) cut() {
	if p.rest != nil {
		p.rest.Close()
		p.rest, p.err = nil, ErrBodyCut
	}
}

// plain is what adapters read of head: where the caller has asked for gzip himself,
// as much as can be made of it.
func plain(resp *http.Response, head []byte) []byte {
	if !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return head
	}
	z, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return head
	}
	text, _ := io.ReadAll(io.LimitReader(z, maxPeek)) // what there is of it
	return text
}

package fakeads

import (
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// frame is a message that is encoded already. Repeated rows are encoded one by
// one, from one row that is used again and again, so that a report of any length
// is streamed in the memory of one batch.
type frame struct {
	buf *[]byte // from frames; it goes back when the frame has been sent
}

// resultsField is the number of results in the answers of Search and
// SearchStream.
const resultsField = 1

// batch collects rows as a frame.
type batch struct {
	plan *plan
	row  row
	buf  *[]byte
	rows int
}

func newBatch(p *plan) *batch {
	b := &batch{plan: p}
	for _, name := range p.used {
		b.row.use(name)
	}
	return b
}

// add encodes one row.
func (b *batch) add(it *item) error {
	for _, f := range b.plan.puts {
		f.put(&b.row, f.get(it))
	}
	if b.buf == nil {
		b.buf = frames.Get(0)
	}
	buf := protowire.AppendTag(*b.buf, resultsField, protowire.BytesType)
	buf = protowire.AppendVarint(buf, uint64(proto.Size(&b.row.msg)))
	buf, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(buf, &b.row.msg)
	*b.buf = buf
	b.rows++
	return err
}

// end returns the rows so far with the rest of their message behind them, and
// starts over.
func (b *batch) end(rest proto.Message) (*frame, error) {
	if b.buf == nil {
		b.buf = frames.Get(0)
	}
	buf, err := proto.MarshalOptions{}.MarshalAppend(*b.buf, rest)
	*b.buf = buf
	f := &frame{b.buf}
	b.buf, b.rows = nil, 0
	return f, err
}

// drop gives back what was collected.
func (b *batch) drop() {
	if b.buf != nil {
		frames.Put(b.buf)
		b.buf = nil
	}
}

// frames recycles buffers. One that grew beyond a usual batch is left to the
// garbage collector.
var frames framePool

type framePool struct{ pool sync.Pool }

const maxFrame = 4 << 20

// Get returns an empty buffer, whatever length is asked for: frames grow as rows
// are added.
func (p *framePool) Get(int) *[]byte {
	if buf, ok := p.pool.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 0, 64<<10)
	return &buf
}

// Put takes a buffer back.
func (p *framePool) Put(buf *[]byte) {
	if cap(*buf) <= maxFrame {
		*buf = (*buf)[:0]
		p.pool.Put(buf)
	}
}

// codec is the usual proto codec, which sends frames as they are.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal encodes v.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		return mem.BufferSlice{mem.NewBuffer(f.buf, &frames)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Package wire reads the protobuf wire format by hand: enough to find a few
// fields in a vendor's error without linking its generated code, which would
// register its names once more beside the user's own copy.
//
// It reads any bytes: nothing in it panics, recurses or allocates, and a message
// of n bytes takes O(n) time.
package wire

// Type is the wire type of a field.
type Type uint8

const (
	Varint  Type = 0 // int32, int64, uint32, uint64, bool, enum
	Fixed64 Type = 1 // fixed64, sfixed64, double
	Bytes   Type = 2 // string, bytes, messages, packed fields
	Fixed32 Type = 5 // fixed32, sfixed32, float

	startGroup Type = 3
	endGroup   Type = 4
)

// Field is one field of a message. Which of Value and Bytes is set depends on
// Type.
type Field struct {
	Num   int32
	Type  Type
	Value uint64 // of Varint, Fixed64 and Fixed32
	Bytes []byte // of Bytes; part of the message, not a copy
}

// Int returns the field's value as an int64 or enum; false for a field of
// another wire type.
func (f Field) Int() (int64, bool) { return int64(f.Value), f.Type == Varint }

// Reader goes through the fields of one message, in the order in which they
// were written:
//
//	r := wire.NewReader(b)
//	for r.Next() {
//		switch f := r.Field(); f.Num { ... }
//	}
//	if r.Bad() { ... }
//
// A Reader is for one goroutine. The zero Reader reads the empty message.
type Reader struct {
	rest  []byte
	field Field
	bad   bool
}

// NewReader returns a reader of message b, which must not change meanwhile.
func NewReader(b []byte) *Reader { return &Reader{rest: b} }

// Next goes to the next field. It returns false at the end of the message and
// where the bytes are no protobuf any more; Bad tells the two apart. Groups,
// which no message of today has, are skipped whole.
func (r *Reader) Next() bool {
	for groups := 0; len(r.rest) > 0; {
		f, ok := r.read()
		switch {
		case !ok:
			return r.fail()
		case f.Type == startGroup:
			groups++
		case f.Type == endGroup:
			if groups--; groups < 0 {
				return r.fail()
			}
		case groups == 0:
			r.field = f
			return true
		}
		if groups > 0 && len(r.rest) == 0 {
			return r.fail()
		}
	}
	r.field = Field{}
	return false
}

// Field returns the field that Next went to.
func (r *Reader) Field() Field { return r.field }

// Bad reports whether Next stopped because the bytes are malformed. The fields
// before that are what they were.
func (r *Reader) Bad() bool { return r.bad }

func (r *Reader) fail() bool {
	r.rest, r.field, r.bad = nil, Field{}, true
	return false
}

// maxNum is the largest field number that protobuf allows.
const maxNum = 1<<29 - 1

// read consumes one tag and its value.
func (r *Reader) read() (Field, bool) {
	tag, ok := r.varint()
	if num := tag >> 3; !ok || num < 1 || num > maxNum {
		return Field{}, false
	}
	f := Field{Num: int32(tag >> 3), Type: Type(tag & 7)}
	switch f.Type {
	case Varint:
		f.Value, ok = r.varint()
	case Fixed64:
		f.Value, ok = r.fixed(8)
	case Fixed32:
		f.Value, ok = r.fixed(4)
	case Bytes:
		var n uint64
		if n, ok = r.varint(); ok {
			f.Bytes, ok = r.take(n)
		}
	case startGroup, endGroup:
	default: // 6 and 7 are not defined
		ok = false
	}
	return f, ok
}

// varint consumes a base-128 number of at most ten bytes.
func (r *Reader) varint() (uint64, bool) {
	var v uint64
	for i, c := range r.rest {
		if i == 9 && c > 1 { // the tenth byte holds the 64th bit alone
			return 0, false
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.rest = r.rest[i+1:]
			return v, true
		}
	}
	return 0, false
}

// fixed consumes a little-endian number of n bytes.
func (r *Reader) fixed(n uint64) (v uint64, ok bool) {
	b, ok := r.take(n)
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	return v, ok
}

// take consumes n bytes.
func (r *Reader) take(n uint64) ([]byte, bool) {
	if n > uint64(len(r.rest)) {
		return nil, false
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b, true
}

package wire

// AppendVarint appends a varint field to message b. A negative int is written
// as protobuf does, in ten bytes: AppendVarint(b, 1, uint64(n)).
func AppendVarint(b []byte, num int32, v uint64) []byte {
	return appendUvarint(appendTag(b, num, Varint), v)
}

// AppendBytes appends a string, a byte field or an embedded message to b.
func AppendBytes[T string | []byte](b []byte, num int32, v T) []byte {
	b = appendUvarint(appendTag(b, num, Bytes), uint64(len(v)))
	return append(b, v...)
}

func appendTag(b []byte, num int32, t Type) []byte {
	return appendUvarint(b, uint64(num)<<3|uint64(t))
}

func appendUvarint(b []byte, v uint64) []byte {
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

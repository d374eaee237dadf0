package wire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

func fields(b []byte) (out []Field, bad bool) {
	r := NewReader(b)
	for r.Next() {
		out = append(out, r.Field())
	}
	return out, r.Bad()
}

func TestReaderReadsEveryWireType(t *testing.T) {
	for name, tc := range map[string]struct {
		hex  string
		want []Field
	}{
		"empty":              {"", nil},
		"varint":             {"08 96 01", []Field{{Num: 1, Value: 150}}},
		"largest varint":     {"08 ff ff ff ff ff ff ff ff ff 01", []Field{{Num: 1, Value: 1<<64 - 1}}},
		"overlong varint":    {"08 80 00", []Field{{Num: 1}}},
		"fixed64":            {"09 01 00 00 00 00 00 00 80", []Field{{Num: 1, Type: Fixed64, Value: 1<<63 | 1}}},
		"fixed32":            {"0d 01 02 03 04", []Field{{Num: 1, Type: Fixed32, Value: 0x04030201}}},
		"bytes":              {"12 07 74 65 73 74 69 6e 67", []Field{{Num: 2, Type: Bytes, Bytes: []byte("testing")}}},
		"empty bytes":        {"12 00", []Field{{Num: 2, Type: Bytes, Bytes: []byte{}}}},
		"largest number":     {"f8 ff ff ff 0f 01", []Field{{Num: maxNum, Value: 1}}},
		"groups are skipped": {"08 01 1b 08 02 23 12 01 61 24 1c 10 03", []Field{{Num: 1, Value: 1}, {Num: 2, Value: 3}}},
		"a group at the end": {"08 01 1b 1c", []Field{{Num: 1, Value: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, bad := fields(unhex(t, tc.hex))
			if bad || !reflect.DeepEqual(got, tc.want) {
				t.Fatalf("got %+v (bad %v), want %+v", got, bad, tc.want)
			}
		})
	}
}

func TestReaderStopsAtMalformedBytes(t *testing.T) {
	for name, s := range map[string]string{
		"no value":               "08",
		"cut varint":             "08 80",
		"varint of 65 bits":      "08 ff ff ff ff ff ff ff ff ff 02",
		"varint of 11 bytes":     "08 80 80 80 80 80 80 80 80 80 80 01",
		"cut tag":                "80",
		"field 0":                "00 01",
		"field above the limit":  "80 80 80 80 10 01",
		"cut fixed64":            "09 01 02 03 04 05 06 07",
		"cut fixed32":            "0d 01 02 03",
		"cut bytes":              "12 05 61 62",
		"length beyond int":      "12 ff ff ff ff ff ff ff ff ff 01 61",
		"undefined type 6":       "0e 01",
		"undefined type 7":       "0f 01",
		"end without start":      "1c",
		"start without end":      "1b 08 01",
		"start without anything": "1b",
	} {
		t.Run(name, func(t *testing.T) {
			got, bad := fields(append(unhex(t, "08 07"), unhex(t, s)...))
			if !bad {
				t.Fatalf("read as %+v", got)
			}
			if want := []Field{{Num: 1, Value: 7}}; !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v, want the good field %+v", got, want)
			}
		})
	}
}

func TestReaderIsDoneAfterTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		r   *Reader
		bad bool
	}{
		"the zero Reader": {new(Reader), false},
		"malformed bytes": {NewReader([]byte{0xff}), true},
	} {
		for range 3 {
			if tc.r.Next() || tc.r.Bad() != tc.bad {
				t.Errorf("%s: read %+v, bad %v", name, tc.r.Field(), tc.r.Bad())
			}
		}
	}
}

func TestDeepGroupsCostNoStack(t *testing.T) {
	deep := bytes.Repeat([]byte{0x0b}, 1<<20)
	deep = append(deep, bytes.Repeat([]byte{0x0c}, 1<<20)...)
	if got, bad := fields(append(deep, 0x08, 0x01)); bad || len(got) != 1 {
		t.Fatalf("got %v, bad %v", got, bad)
	}
}

func TestReaderDoesNotAllocate(t *testing.T) {
	b := AppendBytes(AppendVarint(nil, 1, 5), 2, "text")
	if n := testing.AllocsPerRun(100, func() {
		for r := NewReader(b); r.Next(); {
			_ = r.Field()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestIntOnlyOfVarints(t *testing.T) {
	if n, ok := (Field{Value: 1<<64 - 1}).Int(); n != -1 || !ok {
		t.Errorf("got %d %v", n, ok)
	}
	if _, ok := (Field{Type: Fixed64, Value: 1}).Int(); ok {
		t.Error("a fixed64 is no varint")
	}
}

// FuzzReader holds a reader to three things on any bytes: it ends, it stays
// inside its input, and what it read means the same when it is written again.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0x08, 0x96, 0x01})
	f.Add([]byte{0x12, 0x03, 'a', 'b', 'c', 0x1b, 0x08, 0x02, 0x1c})
	f.Add([]byte{0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add(AppendBytes(AppendVarint(nil, 11, 1<<63), maxNum, "x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, _ := fields(b)
		if len(first) > len(b)/2 {
			t.Fatalf("%d fields in %d bytes", len(first), len(b))
		}
		var again []byte
		for i, fd := range first {
			switch fd.Type {
			case Varint:
				again = AppendVarint(again, fd.Num, fd.Value)
			case Bytes:
				again = AppendBytes(again, fd.Num, fd.Bytes)
			default: // there is no writer for these; a varint keeps number and value
				again = AppendVarint(again, fd.Num, fd.Value)
				first[i].Type = Varint
			}
		}
		second, bad := fields(again)
		if bad || len(first) != len(second) {
			t.Fatalf("%d fields became %d, bad %v", len(first), len(second), bad)
		}
		for i := range first {
			a, b := first[i], second[i]
			if a.Num != b.Num || a.Type != b.Type || a.Value != b.Value || !bytes.Equal(a.Bytes, b.Bytes) {
				t.Fatalf("field %d: %+v became %+v", i, a, b)
			}
		}
	})
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

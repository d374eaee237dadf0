package store

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/flyball-go/flyball/internal/key"
)

// Node names a process, and one start of it: a process that begins again is another
// node. It is 1 to 32 bytes of [0-9a-z].
type Node string

// NewNode returns a random name of 96 bits.
func NewNode() Node {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return Node(hex.EncodeToString(b[:]))
}

// Check returns an error that matches ErrInvalid when n is no name.
func (n Node) Check() error {
	ok := len(n) >= 1 && len(n) <= 32
	for i := 0; ok && i < len(n); i++ {
		ok = '0' <= n[i] && n[i] <= '9' || 'a' <= n[i] && n[i] <= 'z'
	}
	if !ok {
		return fmt.Errorf("%w: node is %.40q, want 1 to 32 of [0-9a-z]", ErrInvalid, n)
	}
	return nil
}

// CheckKey returns an error that matches ErrInvalid when k is none: it has 1 to 36
// bytes of [A-Za-z0-9:-].
func CheckKey(k string) error {
	if !key.Valid(k) {
		return fmt.Errorf("%w: key is %.64q, want 1 to 36 of [A-Za-z0-9:-]", ErrInvalid, k)
	}
	return nil
}

// KeyFor returns the key of what parts name, of any length and in any characters:
// "governor:", what is readable of the first part, and a hash of all. Different
// parts have different keys.
func KeyFor(parts ...string) string { return key.For("governor:", parts...) }

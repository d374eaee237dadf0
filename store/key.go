package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
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
	if len(n) < 1 || len(n) > 32 || strings.Trim(string(n), "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
		return fmt.Errorf("%w: node is %.40q, want 1 to 32 of [0-9a-z]", ErrInvalid, n)
	}
	return nil
}

// CheckKey returns an error that matches ErrInvalid when key is none: it has 1 to 36
// bytes of [A-Za-z0-9:-].
func CheckKey(key string) error {
	ok := len(key) >= 1 && len(key) <= 36
	for i := 0; ok && i < len(key); i++ {
		c := key[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == ':' || c == '-'
	}
	if !ok {
		return fmt.Errorf("%w: key is %.64q, want 1 to 36 of [A-Za-z0-9:-]", ErrInvalid, key)
	}
	return nil
}

// KeyFor returns the key of what parts name, of any length and in any characters:
// "governor:", what is readable of the first part, and a hash of all. Different
// parts have different keys.
func KeyFor(parts ...string) string {
	h := sha256.New()
	var size [8]byte
	for _, p := range parts { // with their lengths, so that ("ab", "c") is not ("a", "bc")
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	readable := make([]byte, 0, 8)
	if len(parts) > 0 {
		for i := 0; i < len(parts[0]) && len(readable) < cap(readable); i++ {
			if c := parts[0][i]; CheckKey(string(c)) == nil && c != ':' {
				readable = append(readable, c)
			}
		}
	}
	hash := new(big.Int).SetBytes(h.Sum(nil)).Text(36)
	return "governor:" + string(readable) + "-" + hash[:18]
}

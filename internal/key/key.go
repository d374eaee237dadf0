// Package key is the grammar of what names a resource in a store: 1 to 36 bytes of
// [A-Za-z0-9:-]. There is nothing to escape in it, wherever a key ends up.
package key

import (
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"strings"
)

// Max is how long a key may be.
const Max = 36

// hashed is how many digits of base 36 stand for what a key cannot say: 93 bits.
const hashed = 18

// Valid reports whether s is a key.
func Valid(s string) bool {
	ok := len(s) >= 1 && len(s) <= Max
	for i := 0; ok && i < len(s); i++ {
		ok = plain(s[i]) || s[i] == ':' || s[i] == '-'
	}
	return ok
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// Secret reports whether part, of a key, looks like a credential that somebody has taken
// for a name: it begins as those of well-known services do, and goes on for long with
// letters and digits. What For makes is none.
func Secret(part string) bool {
	for _, begins := range []string{"sk-", "glpat-", "xoxb-", "xoxp-", "AKIA", "ASIA", "eyJ", "Bearer", "bearer"} {
		rest, ok := strings.CutPrefix(part, begins)
		if ok && len(rest) >= 12 && strings.ContainsAny(rest, "0123456789") && !isHash(rest) {
			return true
		}
	}
	return false
}

// isHash reports whether s ends as what For makes does.
func isHash(s string) bool {
	s = s[strings.LastIndexByte(s, '-')+1:]
	return len(s) == hashed && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// For returns the key that begins with prefix and stands for what parts name, of
// any length and in any characters: after the prefix, up to 8 bytes of what is
// readable of the first part, and a hash of all. Different parts have different
// keys. prefix, of up to 17 bytes, has only those of a key.
func For(prefix string, parts ...string) string {
	h := sha256.New()
	var size [8]byte
	for _, p := range parts { // with their lengths, so that ("ab", "c") is not ("a", "bc")
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	readable := make([]byte, 0, 8)
	if len(parts) > 0 {
		most := min(cap(readable), Max-hashed-1-len(prefix))
		for i := 0; i < len(parts[0]) && len(readable) < most; i++ {
			if c := parts[0][i]; plain(c) || c == '-' {
				readable = append(readable, c)
			}
		}
	}
	// Few numbers of 256 bits have fewer than hashed digits, but some have.
	hash := new(big.Int).SetBytes(h.Sum(nil)).Text(36)
	for len(hash) < hashed {
		hash = "0" + hash
	}
	return prefix + string(readable) + "-" + hash[:hashed]
}

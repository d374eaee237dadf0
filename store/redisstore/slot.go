package redisstore

import (
	"strconv"
	"strings"
	"sync"
)

// All keys of ours in Redis begin so. What is between the braces decides about the
// slot of a Cluster; a key of package store has neither braces nor dots.
const prefix = "gov:"

// hashOf is the name of what a key has.
func hashOf(key string) string { return prefix + "{" + key + "}" }

// keyOf is the key that a name is of, or "".
func keyOf(name string) string {
	s, ok := strings.CutPrefix(name, prefix+"{")
	if !ok {
		return ""
	}
	s, ok = strings.CutSuffix(s, "}")
	if !ok {
		return ""
	}
	return s
}

const (
	metaValues = prefix + "{.meta}"
	metaKeys   = prefix + "{.meta}:keys"
	witness    = prefix + "{.witness}" // of a server that is not part of a Cluster
)

// slots is how many slots a Cluster has.
const slots = 16384

// witnesses are the names of the witnesses of all slots of a Cluster, each of which
// is in its slot.
var witnesses = sync.OnceValue(func() []string {
	names := make([]string, slots)
	for i, found := 0, 0; found < slots; i++ {
		tag := ".w" + strconv.FormatInt(int64(i), 36)
		if s := slotOf(tag); names[s] == "" {
			names[s] = prefix + "{" + tag + "}"
			found++
		}
	}
	return names
})

// slotOf is the slot of what has tag between its braces: its CRC-16, as the
// specification of Redis Cluster has it (XMODEM: polynomial 0x1021, from 0).
func slotOf(tag string) int {
	crc := uint16(0)
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable()[byte(crc>>8)^tag[i]]
	}
	return int(crc % slots)
}

var crcTable = sync.OnceValue(func() *[256]uint16 {
	var t [256]uint16
	for i := range t {
		c := uint16(i) << 8
		for range 8 {
			if c&0x8000 != 0 {
				c = c<<1 ^ 0x1021
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return &t
})

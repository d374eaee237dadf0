package store

import (
	"encoding/json"
)

// MetaOp is one operation on metadata.
type MetaOp struct {
	Do      MetaDo
	Key     string // of List: the prefix
	Value   json.RawMessage
	Version uint64 // of Put and Delete: the one to be replaced, 0: there is none
	Limit   int    // of List: how many at most, 1 up to 1000; 0 means 100
}

// MetaDo says what is done.
type MetaDo uint8

const (
	Get    MetaDo = iota // returns the record, none if there is no such key
	Put                  // stores Value, JSON of at most 8 KiB; returns the record
	Delete               // returns none
	List                 // returns those whose key begins so, in order
)

// Record is a piece of metadata: a key, which is unique, and its JSON.
type Record struct {
	Key     string
	Value   json.RawMessage
	Version uint64 // from 1; never that of an earlier value of the key
}

package judge

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Kind says what a Record is about.
type Kind string

const (
	Arrive Kind = "arrive" // the vendor got call ID of Node, and refused it until Until, if that is after At
	Begin  Kind = "begin"  // the process begins the call ID: before it sends anything
	Finish Kind = "finish" // that call is over
	Submit Kind = "submit" // the process accepted request ID
	Settle Kind = "settle" // request ID ended, with Outcome
	Cool   Kind = "cool"   // the process knows that it is to begin nothing before Until
	Clear  Kind = "clear"  // that is over
	Change Kind = "change" // the limit is Quota from now on, as it was told to the store
	Ask    Kind = "ask"    // the process is about to send exchange ID, which gives Returned permits back
	Grant  Kind = "grant"  // that, asked for at Sent, is answered with Quota permits, of the window that ends at Until at the latest

	Trip      Kind = "trip"      // the process is about to ask the store
	Lost      Kind = "lost"      // the process says that it has lost the store,
	Back      Kind = "back"      // or that it has it again
	Unguarded Kind = "unguarded" // the process says that a call passes without a permit
)

// Record is one event. ID numbers calls, requests or exchanges of a Node.
type Record struct {
	At      int64  `json:"at"` // Unix time in nanoseconds: of one machine
	Node    string `json:"node,omitempty"`
	Kind    Kind   `json:"kind"`
	ID      int64  `json:"id,omitempty"`
	Request int64  `json:"request,omitempty"` // of Begin: the request that the call is for
	Until   int64  `json:"until,omitempty"`
	Quota   int64  `json:"quota,omitempty"`
	Outcome string `json:"outcome,omitempty"`

	// Taken is, of Begin, when the call's permit was found good: At is later, by as
	// long as its process did not run in between.
	Taken int64 `json:"taken,omitempty"`

	Sent     int64 `json:"sent,omitempty"`
	Returned int64 `json:"returned,omitempty"`
}

// Writer writes records as lines, each in one Write, so that nothing is lost or torn
// but the last when the process is killed. A nil Writer writes nothing. It may be
// used by any number of goroutines at once.
type Writer struct {
	mu   sync.Mutex
	w    io.Writer
	node string
	err  error
}

// NewWriter returns a Writer for the events of node.
func NewWriter(w io.Writer, node string) *Writer { return &Writer{w: w, node: node} }

// Write notes r, with the time and the node where it has none.
func (w *Writer) Write(r Record) {
	if r.At == 0 {
		r.At = time.Now().UnixNano()
	}
	if r.Node == "" {
		r.Node = w.node
	}
	w.write(r)
}

func (w *Writer) write(r Record) {
	if w == nil {
		return
	}
	line, err := json.Marshal(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		_, err = w.w.Write(append(line, '\n'))
	}
	w.err = cmp.Or(w.err, err)
}

// Err returns the first error of a write.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// History is what all wrote down. The zero History is empty.
type History struct{ Records []Record }

// Read adds what a Writer wrote. A last line that is not whole is left out, as one
// who was killed leaves it; any other is an error.
func (h *History) Read(r io.Reader) error {
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("judge: %w", err)
		}
		var rec Record
		if err := json.Unmarshal(line, &rec); err != nil {
			return fmt.Errorf("judge: line %d: %w", n, err)
		}
		h.Records = append(h.Records, rec)
	}
}

// sorted returns the records of kinds by time.
func (h *History) sorted(kinds ...Kind) (rs []Record) {
	for _, r := range h.Records {
		if slices.Contains(kinds, r.Kind) {
			rs = append(rs, r)
		}
	}
	slices.SortStableFunc(rs, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	return rs
}

type call struct {
	node string
	id   int64
}

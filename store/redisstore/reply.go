package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flyball-go/flyball/store"
)

// errForeign is a reply to another request. What became of ours is not known.
var errForeign = errors.New("redisstore: a reply that is not to the request")

// errStrange is a reply that the script does not give.
var errStrange = errors.New("redisstore: a reply that makes no sense")

// maxReply bounds what is read of a reply: limits, and MaxScopes scopes of 256 bytes.
const maxReply = 64 << 10

const maxEpoch = 128 // bytes: ours have 68 at most

const month = 31 * 24 * time.Hour // the longest Per, and cooldown

// reader takes words from a reply of the script of Exchange. Nothing that a server
// sends makes it panic; what is out of range sets bad.
type reader struct {
	text string
	bad  bool
}

func (r *reader) word() string {
	w, rest, _ := strings.Cut(r.text, " ")
	r.text = rest
	r.bad = r.bad || w == ""
	return w
}

// int takes a number from 0 up to top.
func (r *reader) int(top int64) int64 {
	n, err := strconv.ParseUint(r.word(), 10, 63)
	if err != nil || int64(n) > top {
		r.bad = true
		return 0
	}
	return int64(n)
}

// dur takes a number of microseconds, of at most top.
func (r *reader) dur(top time.Duration) time.Duration {
	return time.Duration(r.int(top.Microseconds())) * time.Microsecond
}

// parse reads a reply of the script of Exchange to it into a. It holds what the script
// says to what the contract lets it say.
func parse(text string, it *store.Item, a *store.Answer) error {
	if len(text) > maxReply {
		return fmt.Errorf("%w: %d bytes", errStrange, len(text))
	}
	if strings.HasPrefix(text, "=") {
		return parseShort(text[1:], it, a)
	}
	r := reader{text: text}
	a.Node = store.Node(r.word())
	a.Key = keyOf(r.word())
	seq, err := strconv.ParseUint(r.word(), 10, 64)
	a.Seq = seq
	a.Stale = r.int(1) == 1
	if a.Stale && !r.bad && err == nil && r.text == "" {
		return nil
	}
	if a.Epoch = r.word(); len(a.Epoch) > maxEpoch {
		return errStrange
	}
	a.Granted = r.int(1e9)
	a.ValidFor = r.dur(month)
	a.RetryAfter = r.dur(10 * month)
	version, e := strconv.ParseUint(r.word(), 10, 64)
	err = errors.Join(err, e)
	a.Version = version
	if limits := r.word(); limits != "-" {
		a.Limits, e = parseLimits(limits)
		err = errors.Join(err, e)
	}
	a.Gen = uint64(r.int(1 << 53))
	a.Probe = store.ProbeState(r.int(int64(store.ProbeOther)))
	a.ProbeFor = r.dur(month)
	a.Held = r.int(1 << 20)
	a.SlotsFor = r.dur(month)
	a.Nodes = int(r.int(maxNodes))
	for range r.int(store.MaxScopes) {
		a.Cooldowns = append(a.Cooldowns, r.cooldown(month))
	}
	if r.bad || err != nil || r.text != "" {
		return errStrange
	}
	a.RetryAfter = min(a.RetryAfter, month)
	return nil
}

// parseShort reads what the short way says: five numbers, and whose they are. All else
// is as it believed.
func parseShort(text string, it *store.Item, a *store.Answer) error {
	var n [5]uint64 // seq, gen, usable, granted, nodes
	for i, size := range [...]int{7, 7, 7, 4, 2} {
		if len(text) < size {
			return errStrange
		}
		for j := range size {
			n[i] |= uint64(text[j]) << (8 * j)
		}
		text = text[size:]
	}
	key, node, found := strings.Cut(strings.TrimPrefix(text, " "), " n:")
	if !found || n[1] > 1<<53 || n[2] > uint64(month.Microseconds()) || n[3] > 1e9 || n[4] > maxNodes {
		return errStrange
	}
	a.Node, a.Key, a.Seq, a.Epoch, a.Version = store.Node(node), keyOf(key), n[0], it.Epoch, it.Version
	a.Gen, a.ValidFor, a.Granted, a.Nodes = n[1], time.Duration(n[2])*time.Microsecond, int64(n[3]), int(n[4])
	return nil
}

// parseHint reads what the script of Exchange publishes about key. What makes no sense says
// nothing but that there is something.
func parseHint(key, text string) store.Hint {
	h := store.Hint{Key: key}
	if text == "" || len(text) > maxReply {
		return h
	}
	r := reader{text: text}
	epoch := r.word()
	for range r.int(store.MaxScopes) {
		h.Cooldowns = append(h.Cooldowns, r.cooldown(month))
	}
	if r.bad || r.text != "" || len(epoch) > maxEpoch {
		return store.Hint{Key: key}
	}
	h.Epoch = epoch
	return h
}

// cooldown takes the length of a scope, a colon, the scope, what is left and the
// generation.
func (r *reader) cooldown(most time.Duration) (c store.Cooldown) {
	length, rest, ok := strings.Cut(r.text, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > 256 || len(rest) < n+1 || rest[n] != ' ' {
		r.bad, r.text = true, ""
		return c
	}
	c.Scope, r.text = rest[:n], rest[n+1:]
	c.Left = r.dur(most)
	c.Gen = uint64(r.int(1 << 53))
	return c
}

// parseLimits reads what appendLimit wrote, perhaps of another process.
func parseLimits(text string) (limits []store.Limit, err error) {
	for l := range strings.SplitSeq(text, ";") {
		f := strings.Split(l, ":")
		if len(f) != 6 || len(limits) == 8 {
			return nil, errStrange
		}
		var n [6]int64
		for i := range f {
			if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
				return nil, errStrange
			}
		}
		if n[0] < 0 || n[0] > int64(store.Window) {
			return nil, errStrange
		}
		limits = append(limits, store.Limit{
			Kind: store.Kind(n[0]), Quota: n[1], Per: time.Duration(n[2]), Burst: n[3],
			Lease: time.Duration(n[4]), Transit: time.Duration(n[5]),
		})
	}
	return limits, store.CheckLimits(limits)
}

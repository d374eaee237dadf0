package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// Exchange executes each item by one script on the server that has its key: in one
// round trip for all that one server has. Those of servers that do not answer have
// Answer.Err, if others do. Exchanges of one item each that come while four are under way
// wait for up to 5 ms for the end of one of these, and share a round trip; not on a Cluster,
// nor with a Config.Client.
func (s *Store) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if err := store.CheckExchange(node, items); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.work.Done()
	if len(items) == 0 {
		return nil, nil
	}
	cmds := make([]*redis.StringCmd, len(items))
	for i := range items {
		it := &items[i]
		p := s.prepare(it)
		args := make([]any, 0, 8+2*len(it.Cool)+3*len(it.Known)+2*len(it.Clear))
		args = append(args, "evalsha", s.script.sha, "2", p.hash, p.witness, s.words(node, it), p.belief)
		if !plain(it) {
			args = cooldowns(append(args, moreWords(it)), it)
		}
		cmds[i] = redis.NewStringCmd(ctx, args...)
	}
	s.eval(ctx, s.script, cmds)
	return s.answers(node, items, cmds)
}

// eval executes cmds, each an EVALSHA of sc, in one pipeline; once more by EVAL those
// whose server does not know the script. One that it had to give up it replaces.
func (s *Store) eval(ctx context.Context, sc *script, cmds []*redis.StringCmd) {
	s.process(ctx, cmds)
	var again []*redis.StringCmd
	var at []int // in cmds
	for i, c := range cmds {
		if err := c.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			c.Args()[0], c.Args()[1] = "eval", sc.text
			c.SetErr(nil)
			again, at = append(again, c), append(at, i)
		}
	}
	if len(again) > 0 {
		s.process(ctx, again)
		for i, c := range again {
			cmds[at[i]] = c
		}
	}
}

// process is eval, once.
func (s *Store) process(ctx context.Context, cmds []*redis.StringCmd) {
	switch {
	case len(cmds) > 1:
		s.pipeline(ctx, cmds)
	case !s.once: // on a Cluster one node would wait for another, and a user's client may have hooks for single commands
		s.command(ctx, cmds[0])
	default:
		if err := s.batcher.do(ctx, cmds[0]); err != nil {
			cmds[0] = redis.NewStringCmd(ctx)
			cmds[0].SetErr(err)
		}
	}
}

func (s *Store) command(ctx context.Context, cmd *redis.StringCmd) {
	s.client.Process(ctx, cmd) // the error is the command's
}

func (s *Store) pipeline(ctx context.Context, cmds []*redis.StringCmd) {
	p := s.client.Pipeline()
	for _, c := range cmds {
		p.Process(ctx, c)
	}
	if _, err := p.Exec(ctx); err != nil {
		missing(cmds, err) // where there is no connection since a server refused one, no command has an error
	}
}

// answers reads the replies. An error is about all items.
func (s *Store) answers(node store.Node, items []store.Item, cmds []*redis.StringCmd) ([]store.Answer, error) {
	answers := make([]store.Answer, len(items))
	failed, err := 0, error(nil)
	for i, c := range cmds {
		a := &answers[i]
		text, e := c.Result()
		if e == nil {
			if e = parse(text, &items[i], a); e == nil && (a.Node != node || a.Key != items[i].Key || a.Seq != items[i].Seq) {
				e = errForeign
			}
			if e != nil {
				// The connection may be off by one, or worse: none is to be trusted.
				s.conns.closeAll()
				s.strange.Add(1)
			}
		} else {
			e = s.failure(e)
		}
		if e != nil {
			*a = store.Answer{Node: node, Key: items[i].Key, Seq: items[i].Seq, Err: e}
			if failed++; err == nil || !definite(e) {
				err = e
			}
		}
	}
	if c, ok := s.client.(*redis.ClusterClient); ok && err != nil && !definite(err) {
		c.ReloadState(context.Background()) // it goes on to ask who is gone, otherwise
	}
	if failed == len(items) {
		return nil, err
	}
	if s.alone || s.follows {
		for i := range answers {
			if run, _, ok := strings.Cut(answers[i].Epoch, "-"); ok {
				s.executes(run)
			}
		}
	}
	return answers, nil
}

// executes has the watches subscribe anew when it is another server that executes: a name
// may have come to mean that, while a subscription is still with the one before.
func (s *Store) executes(run string) {
	var watches []*watch
	s.mu.Lock()
	was := s.run
	if run != was {
		s.run = strings.Clone(run)
	}
	if was != "" && run != was {
		watches = slices.Collect(maps.Values(s.watches))
	}
	s.mu.Unlock()
	for _, w := range watches {
		w.renew()
	}
}

func definite(err error) bool {
	return errors.Is(err, store.ErrNotExecuted) || errors.Is(err, store.ErrInvalid)
}

// prepared is what the requests for one key mostly have in common: strings, boxed
// once. It does not change.
type prepared struct {
	limits                []store.Limit
	epoch                 string
	version               uint64
	hash, witness, belief any
}

// maxPrepared bounds what is kept of them.
const maxPrepared = 10_000

// prepare finds what was prepared for it.
func (s *Store) prepare(it *store.Item) *prepared {
	s.mu.Lock()
	p := s.prepared[it.Key]
	s.mu.Unlock()
	if p != nil && p.epoch == it.Epoch && p.version == it.Version && slices.Equal(p.limits, it.Limits) {
		return p
	}
	epoch := strings.Clone(it.Epoch) // which may be a part of a long reply
	belief := []byte("-")
	if isWord(epoch) && len(epoch) <= maxEpoch { // else none of ours
		belief = []byte(epoch)
	}
	belief = append(strconv.AppendUint(append(belief, ' '), it.Version, 10), ' ')
	for i, l := range it.Limits {
		if i > 0 {
			belief = append(belief, ';')
		}
		belief = appendLimit(belief, l)
	}
	p = &prepared{
		limits: slices.Clone(it.Limits), epoch: epoch, version: it.Version,
		hash: hashOf(it.Key), witness: s.witness(it.Key), belief: string(belief),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.prepared) >= maxPrepared {
		clear(s.prepared)
	}
	s.prepared[it.Key] = p
	return p
}

// maxGen is the largest generation that Lua can count to. Who says that he knows of a larger
// one than half of it is taken at that, which leaves enough to count on from.
const maxGen = 1 << 53

// words is the first of the ARGV of the script: numbers of 8 bytes, and the name of
// the node's field.
func (s *Store) words(node store.Node, it *store.Item) string {
	var buf [128]byte
	b := appendInts(buf[:0],
		s.ttl.Microseconds(), it.Want, max(1, it.Least), it.Returned, it.Debt, int64(min(it.Seen, maxGen)), int64(it.Seq), s.bound.Microseconds())
	return string(append(append(b, "n:"...), node...))
}

// moreWords is the third, of a request that is not plain.
func moreWords(it *store.Item) string {
	var buf [128]byte
	b := appendInts(buf[:0],
		int64(it.Probe), it.Slots, it.Held, it.WantSlots, it.LeastSlots, int64(it.Line), bit(it.Bye), int64(len(it.Cool)), int64(len(it.Known)), int64(len(it.Clear)))
	return string(digits(b, it.Seq))
}

// appendInts appends numbers as the script unpacks them.
func appendInts(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// plain reports whether it asks for permits alone, by numbers that Lua can count to:
// what the script has a short way for.
func plain(it *store.Item) bool {
	return len(it.Limits) == 1 && it.Probe == store.ProbeNothing && it.Slots|it.Held|it.WantSlots|it.LeastSlots == 0 && !it.Bye &&
		len(it.Cool)+len(it.Known)+len(it.Clear) == 0 && it.Seq < 1<<53
}

// cooldowns appends the last of the ARGV.
func cooldowns(args []any, it *store.Item) []any {
	for _, c := range it.Cool {
		args = append(args, c.Scope, micros(min(c.For, store.MaxCool)))
	}
	for _, c := range it.Known {
		args = append(args, c.Scope, micros(min(c.Left, store.MaxCool)), min(c.Gen, maxGen/2))
	}
	for _, c := range it.Clear {
		args = append(args, c.Scope, min(c.Gen, maxGen))
	}
	return args
}

// micros is d in microseconds, rounded up: a cooldown gets no shorter.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// digits appends n in 20 digits, so that numbers compare as text: they may be larger
// than what Lua can count to.
func digits(b []byte, n uint64) []byte {
	var d [20]byte
	for i := len(d) - 1; i >= 0; i-- {
		d[i] = byte('0' + n%10)
		n /= 10
	}
	return append(b, d[:]...)
}

// isWord reports whether s can be a word of the script's.
func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return s != ""
}

func appendLimit(b []byte, l store.Limit) []byte {
	for i, n := range [...]int64{int64(l.Kind), l.Quota, int64(l.Per), l.Burst, int64(l.Lease), int64(l.Transit)} {
		if i > 0 {
			b = append(b, ':')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return b
}

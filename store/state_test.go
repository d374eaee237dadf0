package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/effort"
)

// again returns s as it comes back from its bytes.
func again(t *testing.T, s *State) *State {
	t.Helper()
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatalf("%v of %+v", err, s.r)
	}
	var read State
	if err := read.UnmarshalBinary(b); err != nil {
		t.Fatalf("%v of %x", err, b)
	}
	if twice, err := read.AppendBinary(nil); err != nil || !bytes.Equal(b, twice) {
		t.Fatalf("written again, %v: %x\nis: %x", err, twice, b)
	}
	return &read
}

// someItem is any item of a node.
func someItem(rnd *rand.Rand, seq uint64) Item {
	some := func(most int64) int64 { return max(0, rnd.Int64N(2*most+1)-most) }
	it := Item{Key: "k", Seq: seq, Version: uint64(some(5)), Want: some(20), Returned: some(5), Seen: uint64(some(9)),
		Epoch: []string{"", "e", "other"}[rnd.IntN(3)], Probe: ProbeWord(rnd.IntN(3)), Bye: rnd.IntN(20) == 0}
	it.Least = min(it.Want, some(3))
	if rnd.IntN(2) == 0 {
		it.Slots, it.Held, it.WantSlots = 1+some(10), some(10), some(10)
		it.LeastSlots, it.Line = rnd.Int64N(it.Held+it.WantSlots+1), LineWord(rnd.IntN(3))
	}
	for range some(2) {
		it.Cool = append(it.Cool, Cool{fmt.Sprint(rnd.IntN(100)), time.Duration(1 + some(1e9))})
	}
	if rnd.IntN(20) == 0 {
		it.Debt = some(5)
	}
	if rnd.IntN(2000) == 0 {
		it.Cool = append(it.Cool, Cool{"", time.Duration(1 + some(1e9))})
	}
	if rnd.IntN(20) == 0 {
		it.Known = append(it.Known, Cooldown{fmt.Sprint(rnd.IntN(100)), time.Duration(some(1e9)), uint64(some(50))})
		it.Clear = []Cleared{{fmt.Sprint(rnd.IntN(100)), uint64(some(50))}, {"", math.MaxUint64}}
	}
	for range rnd.IntN(3) {
		l := Limit{Kind: Kind(rnd.IntN(3)), Quota: 1 + some(100), Per: time.Duration(1+rnd.IntN(3)) * time.Second, Transit: time.Duration(rnd.IntN(3)-1) * time.Millisecond}
		if l.Kind == Bucket {
			l.Burst, l.Lease = some(l.Quota), time.Duration(some(1e9))
		}
		it.Limits = append(it.Limits, l)
	}
	return it
}

func TestStateDecidesAsOneThatIsNeverWritten(t *testing.T) {
	seeds, grants := effort.Times(3), int64(0)
	for seed := uint64(9); seed < 9+uint64(seeds); seed++ { // the first of these shows most
		rnd := rand.New(rand.NewPCG(seed, 1))
		cfg := StateConfig{Now: time.Unix(1_800_000_000, 123), TTL: 2 * time.Second, Epoch: "e", MaxNodes: 6}
		kept := NewState(cfg, seed%2 == 0)
		read := again(t, kept)
		seqs := map[Node]uint64{}
		for step := range 400 {
			cfg.Now = cfg.Now.Add(time.Duration(rnd.Int64N(1 << rnd.Int64N(31))))
			if rnd.IntN(50) == 0 {
				cfg.Now = cfg.Now.Add(-time.Second) // a clock that is set back
			}
			node := Node(fmt.Sprint(rnd.IntN(8)))
			if rnd.IntN(10) > 0 {
				seqs[node]++ // else it is repeated, with other words
			} else if rnd.IntN(5) == 0 {
				seqs[node]--
			}
			it := someItem(rnd, seqs[node]+10)
			if err := it.check(); err != nil {
				t.Fatal(err)
			}
			want, wantNews, wantErr := kept.Exchange(cfg, node, &it)
			got, news, err := read.Exchange(cfg, node, &it)
			if !reflect.DeepEqual(got, want) || news != wantNews || (err == nil) != (wantErr == nil) || err != nil && !errors.Is(err, ErrTooMany) {
				t.Fatalf("seed %d, step %d: %+v\nis answered by %+v, %t, %v\nwant            %+v, %t, %v", seed, step, it, got, news, err, want, wantNews, wantErr)
			}
			grants += got.Granted
			read = again(t, read)
			if kept.Now() != read.Now() || kept.Idle() != read.Idle() {
				t.Fatalf("seed %d, step %d: at %v idle at %v, want at %v, %v", seed, step, read.Now(), read.Idle(), kept.Now(), kept.Idle())
			}
		}
	}
	if grants < int64(5*seeds) {
		t.Errorf("%d were granted, want more", grants)
	}
}

func TestAnIdleStateTellsNothing(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		cfg := StateConfig{Now: time.Unix(1_800_000_000, 123), TTL: 2 * time.Second, Epoch: "e", MaxNodes: 6}
		s := NewState(cfg, false)
		for i := range uint64(20) {
			cfg.Now = cfg.Now.Add(time.Duration(rnd.Int64N(1e8)))
			it := someItem(rnd, i+1)
			if seed%2 == 0 {
				it.Cool, it.Known = nil, nil
			}
			if _, _, err := s.Exchange(cfg, Node(fmt.Sprint(rnd.IntN(5))), &it); err != nil {
				t.Fatal(err)
			}
		}
		idle := s.Idle()
		s.r.probing = false // which Memory keeps for ever
		if !s.r.idle(idle.UnixNano()) {
			t.Errorf("seed %d: at %v somebody could tell %+v from a new one", seed, idle, s.r)
		}
	}
}

func TestStateRefusesGarbage(t *testing.T) {
	cfg := StateConfig{Now: time.Unix(1_800_000_000, 0), TTL: time.Second, Epoch: "e", MaxNodes: 6}
	s := NewState(cfg, false)
	for i, kind := range []Kind{Window, Sliding, Bucket} {
		it := Item{Key: "k", Seq: 1, Version: uint64(i + 1), Limits: []Limit{{Kind: kind, Quota: 10, Per: time.Second}}, Want: 5,
			Cool: []Cool{{"tenant:a", time.Minute}}}
		if _, _, err := s.Exchange(cfg, Node(fmt.Sprint(i)), &it); err != nil {
			t.Fatal(err)
		}
	}
	good, err := s.AppendBinary([]byte("x"))
	if err != nil || good[0] != 'x' {
		t.Fatal(good, err)
	}
	good = good[1:]
	for _, b := range [][]byte{nil, {}, {0}, {2}, good[:1], good[1:], append(slices.Clone(good), 0),
		bytes.Repeat([]byte{0xff}, 100), binary.AppendUvarint([]byte{stateFormat}, 1<<63), make([]byte, 100)} {
		if err := new(State).UnmarshalBinary(b); !errors.Is(err, ErrInvalid) {
			t.Errorf("%x: %v, want an error that matches ErrInvalid", b, err)
		}
	}
	for n := range good {
		if err := new(State).UnmarshalBinary(good[:n]); !errors.Is(err, ErrInvalid) {
			t.Errorf("the first %d of %d bytes: %v, want an error that matches ErrInvalid", n, len(good), err)
		}
	}
	none, err := (&State{r: newResource(0, false, time.Second)}).AppendBinary(nil)
	if err != nil || none[1] != 0 || new(State).UnmarshalBinary(none) != nil {
		t.Fatalf("%x, %v", none, err)
	}
	at := slices.Concat(none[:5], []byte{1}, none[5:])      // probeEnds, by its distance from 0, which is never
	long := slices.Concat(none[:1], []byte{0x80}, none[1:]) // a 0 of two bytes
	for name, b := range map[string][]byte{"a time that is none": at, "a number that is too long": long} {
		if err := new(State).UnmarshalBinary(b); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s passes: %v", name, err)
		}
	}
	for name, spoil := range map[string]func(*resource){
		"more used than can be": func(r *resource) { r.limits[0].full = 1 << 62; r.limits[0].full *= 2 },
		"less than nothing":     func(r *resource) { r.nodes["1"].want = -1 },
		"a gen of the future":   func(r *resource) { r.gen = 0 },
		"another shape":         func(r *resource) { r.asked = nil },
		"a prober of nowhere":   func(r *resource) { r.prober = "x" },
		"no limit":              func(r *resource) { r.limits[0].limit.Quota = 0 },
		"what is not filled":    func(r *resource) { r.limits[0].limit.Transit = -1 },
	} {
		var bad State
		if err := bad.UnmarshalBinary(good); err != nil {
			t.Fatal(err)
		}
		spoil(bad.r)
		if b, err := bad.AppendBinary(nil); err == nil && !errors.Is(new(State).UnmarshalBinary(b), ErrInvalid) {
			t.Errorf("%s passes", name)
		}
	}
}

// That many nodes follow is believed as far as they do.
func TestGarbageMakesRoomForFewNodes(t *testing.T) {
	none, err := NewState(StateConfig{Now: time.Unix(1, 0), TTL: time.Second}, false).AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := append(binary.AppendUvarint(none[:len(none)-1], 60_000), make([]byte, 60_000*leastMember)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := new(State).UnmarshalBinary(b); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(2*len(b)) {
		t.Errorf("%d bytes of it took %d", len(b), n)
	}
}

// A scope that an answer has told of is kept by who was told, the rest is not.
func TestAScopeDoesNotKeepTheStateThatItIsOf(t *testing.T) {
	cfg := StateConfig{Now: time.Unix(1_800_000_000, 0), TTL: time.Second, MaxNodes: 1000}
	s := NewState(cfg, false)
	for i := range 500 {
		it := Item{Key: "k", Seq: 1, Version: 1, Limits: []Limit{{Quota: 1e6, Per: time.Second}}, Want: 5}
		if i == 0 {
			it.Cool = []Cool{{"tenant:a", time.Minute}}
		}
		if _, _, err := s.Exchange(cfg, Node(fmt.Sprint(1000+i)), &it); err != nil {
			t.Fatal(err)
		}
	}
	text, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	const states = 100
	var told []string
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range states {
		var s State
		if err := s.UnmarshalBinary(text); err != nil {
			t.Fatal(err)
		}
		a, _, err := s.Exchange(cfg, "new", &Item{Key: "k", Seq: 1, Version: 1, Limits: []Limit{{Quota: 1e6, Per: time.Second}}})
		if err != nil || len(a.Cooldowns) != 1 {
			t.Fatal(a, err)
		}
		told = append(told, a.Cooldowns[0].Scope)
	}
	if n := int64(heap() - before); n > int64(states*len(text)/4) {
		t.Errorf("%d scopes of states of %d bytes keep %d", len(told), len(text), n)
	}
	runtime.KeepAlive(told)
}

func FuzzState(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 3))
	cfg := StateConfig{Now: time.Unix(1_800_000_000, 0), TTL: time.Second, Epoch: "e", MaxNodes: 10}
	s := NewState(cfg, false)
	for i := range uint64(20) {
		it := someItem(rnd, i+1)
		s.Exchange(cfg, Node(fmt.Sprint(i%4)), &it)
		b, err := s.AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s State
		if err := s.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Error(err)
			}
			return
		}
		s = *again(t, &s)
		it := Item{Key: "k", Seq: 1 << 63, Want: 10, Least: 1, Debt: 1, Returned: 3, Slots: 5, WantSlots: 5, Probe: ProbeWanted, Cool: []Cool{{"", 1}}}
		a, _, err := s.Exchange(StateConfig{Now: s.Now().Add(time.Second), TTL: time.Second, Epoch: "e", MaxNodes: 1 << 20}, "fuzz", &it)
		if err != nil || a.Granted < 0 || a.Granted > it.Want || a.ValidFor < 0 {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// A field that a State does not write is lost, and its answers are others.
func TestStateWritesEveryField(t *testing.T) {
	// These follow from what is written, or are set anew.
	derived := []string{"counted.step", "Answer.Node", "Answer.Key", "Answer.Seq", "Answer.Stale", "Answer.Epoch", "Answer.Err"}
	state := func() *State {
		cfg := StateConfig{Now: time.Unix(1_800_000_000, 0), TTL: time.Second, Epoch: "e", MaxNodes: 6}
		s := NewState(cfg, false)
		it := Item{Key: "k", Seq: 1, Version: 1, Want: 5, Limits: []Limit{{Kind: Window, Quota: 10, Per: time.Second}}, Cool: []Cool{{"tenant:a", time.Minute}}}
		if _, _, err := s.Exchange(cfg, "a", &it); err != nil {
			t.Fatal(err)
		}
		s.r.limits[0].at = s.now + 1
		s.r.limits[0].next = s.r.limits[0].limit
		s.r.nodes["a"].answer.Limits = s.r.asked
		return s
	}
	before, err := state().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	parts := func(s *State) []reflect.Value {
		r := s.r
		return []reflect.Value{reflect.ValueOf(r), reflect.ValueOf(r.nodes["a"]), reflect.ValueOf(&r.nodes["a"].answer), reflect.ValueOf(r.limits[0]),
			reflect.ValueOf(&r.limits[0].limit), reflect.ValueOf(&r.limits[0].next), reflect.ValueOf(&r.asked[0]), reflect.ValueOf(&r.cools[0]),
			reflect.ValueOf(&r.nodes["a"].answer.Cooldowns[0])}
	}
	for i, p := range parts(state()) {
		for f := range p.Elem().NumField() {
			name := p.Elem().Type().Name() + "." + p.Elem().Type().Field(f).Name
			if slices.Contains(derived, name) {
				continue
			}
			s := state()
			field := parts(s)[i].Elem().Field(f)
			v := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
			switch v.Kind() {
			case reflect.Bool:
				v.SetBool(!v.Bool())
			case reflect.Int, reflect.Int64:
				v.SetInt(v.Int() + 3)
			case reflect.Uint8, reflect.Uint64:
				v.SetUint(v.Uint() ^ 1)
			case reflect.String:
				v.SetString(v.String() + "x")
			case reflect.Array:
				v.Index(0).SetInt(v.Index(0).Int() + 3)
			case reflect.Slice, reflect.Map:
				v.SetZero()
			case reflect.Struct:
				continue // has its turn
			default:
				t.Fatalf("%s is of a kind that this test does not know", name)
			}
			if after, err := s.AppendBinary(nil); err == nil && bytes.Equal(before, after) {
				t.Errorf("%s is not written", name)
			}
		}
	}
}

// A node says that it knows of the largest Gen that there is.
func TestTheLargestGenHarmsNobody(t *testing.T) {
	for _, gen := range []uint64{1 << 52, 1 << 60, math.MaxUint64} {
		t.Run(fmt.Sprint(gen), func(t *testing.T) {
			cfg := StateConfig{Now: time.Unix(1e9, 0), TTL: time.Second, Epoch: "e", MaxNodes: 9}
			s := NewState(cfg, false)
			told := func(node Node, it Item) Answer {
				it.Key, it.Epoch = "k", "e"
				a, _, err := s.Exchange(cfg, node, &it)
				require.NoError(t, err)
				s = again(t, s)
				return a
			}
			bad, a, b := NewNode(), NewNode(), NewNode()
			told(bad, Item{Seq: 1, Known: []Cooldown{{Scope: "x", Left: time.Minute, Gen: gen}}, Seen: gen})
			seen := told(b, Item{Seq: 1}).Gen
			told(a, Item{Seq: 1, Cool: []Cool{{Scope: "y", For: time.Minute}}})
			require.Len(t, told(b, Item{Seq: 2, Seen: seen}).Cooldowns, 1)
		})
	}
}

// The row of a key was deleted. A cooldown of the new one that is over does not end one
// that a node knows of the old one.
func TestACooldownThatIsOverIsNotRenumbered(t *testing.T) {
	cfg := StateConfig{Now: time.Unix(1e9, 0), TTL: time.Second, Epoch: "e", MaxNodes: 9}
	s := NewState(cfg, false)
	it := Item{Key: "k", Seq: 1, Cool: []Cool{{Scope: "x", For: time.Millisecond}}}
	_, _, err := s.Exchange(cfg, NewNode(), &it)
	require.NoError(t, err)
	cfg.Now = cfg.Now.Add(time.Second)
	a, _, err := s.Exchange(cfg, NewNode(), &Item{Key: "k", Seq: 1, Epoch: "e", Seen: 5})
	require.NoError(t, err)
	require.Empty(t, a.Cooldowns)
}

// A node may say that fewer permits than any number are of no use to it.
func TestStateTakesAnyLeast(t *testing.T) {
	cfg := StateConfig{Now: time.Unix(1800000000, 0), TTL: 10 * time.Second, Epoch: "e", MaxNodes: 10}
	for _, per := range []time.Duration{time.Minute, time.Hour, 744 * time.Hour} {
		for _, least := range []int64{3000, 1e7, 1e8, 1e9} {
			st := NewState(cfg, false)
			_, _, err := st.Exchange(cfg, "n1aaaaaaaaaaaaaaaaaaaa", &Item{Key: "k", Seq: 1, Version: 1, Want: least, Least: least,
				Limits: []Limit{{Kind: Bucket, Quota: 1, Per: per}}})
			if err != nil {
				t.Error(err)
				continue
			}
			if _, err := st.AppendBinary(nil); err != nil {
				t.Errorf("%d per %v: %v", least, per, err)
			}
		}
	}
}

package redisstore

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/store"
)

const goodReply = "node gov:{k} 00000000000000000007 0 epoch-1 3 1000 0 00000000000000000001 0:10:1000000000:0:0:-1 4 1 2000000 2 3000000 5 2 4:a b  60000000 3 0: 0 4"

func TestParse(t *testing.T) {
	var a store.Answer
	if err := parse(goodReply, new(store.Item), &a); err != nil {
		t.Fatal(err)
	}
	want := store.Answer{
		Node: "node", Key: "k", Seq: 7, Epoch: "epoch-1", Granted: 3, ValidFor: time.Millisecond, Version: 1,
		Limits: []store.Limit{{Quota: 10, Per: time.Second, Transit: -1}}, Gen: 4, Probe: store.ProbeCooling, ProbeFor: 2 * time.Second,
		Held: 2, SlotsFor: 3 * time.Second, Nodes: 5,
		Cooldowns: []store.Cooldown{{Scope: "a b ", Left: time.Minute, Gen: 3}, {Scope: "", Gen: 4}},
	}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("%+v, want %+v", a, want)
	}
	for _, bad := range []string{
		"", "x", goodReply + " 1", strings.Replace(goodReply, " 3 1000", " -3 1000", 1),
		strings.Replace(goodReply, " 3 1000", " 1e3 1000", 1), strings.Replace(goodReply, " 3 1000", " 1000000001 1000", 1),
		strings.Replace(goodReply, " 3 1000", " 3 9999999999999", 1), strings.Replace(goodReply, "4:a b ", "5:a b ", 1),
		strings.Replace(goodReply, "4:a b ", "999:a b ", 1), strings.Replace(goodReply, " 5 2 ", " 5 3 ", 1),
		strings.Replace(goodReply, " 5 2 ", " 5 99 ", 1), strings.Replace(goodReply, " 4 1 ", " 4 9 ", 1),
		strings.Replace(goodReply, "0:10:", "7:10:", 1), strings.Replace(goodReply, "0:10:", "0:0:", 1),
		strings.Replace(goodReply, "epoch-1 ", " ", 1), "node gov:{k} 7 1 more", goodReply + strings.Repeat("x", maxReply),
	} {
		if err := parse(bad, new(store.Item), new(store.Answer)); err == nil {
			t.Errorf("%.200q is a reply", bad)
		}
	}
}

// goodShort is a reply of the short way: seq, gen, usable, granted and nodes.
const goodShort = "=\x07\x00\x00\x00\x00\x00\x00" + "\x04\x00\x00\x00\x00\x00\x00" + "\xe8\x03\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00" + "\x05\x00" + " gov:{k} n:node"

func TestParseShort(t *testing.T) {
	it := store.Item{Epoch: "epoch-1", Version: 9}
	var a store.Answer
	if err := parse(goodShort, &it, &a); err != nil {
		t.Fatal(err)
	}
	want := store.Answer{Node: "node", Key: "k", Seq: 7, Epoch: "epoch-1", Version: 9, Granted: 3, ValidFor: time.Millisecond, Gen: 4, Nodes: 5}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("%+v, want %+v", a, want)
	}
	for i := range goodShort {
		if err := parse(goodShort[:i], &it, new(store.Answer)); err == nil && i < len(goodShort)-len("node") {
			t.Errorf("%q is a reply", goodShort[:i])
		}
	}
	for _, i := range []int{14, 21, 25, 27} { // the highest bytes of gen, usable, granted, nodes
		if bad := goodShort[:i] + "\xff" + goodShort[i+1:]; parse(bad, &it, new(store.Answer)) == nil {
			t.Errorf("%q is a reply", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(goodReply)
	f.Add("node gov:{k} 7 1")
	f.Add(goodShort)
	f.Fuzz(func(t *testing.T, text string) {
		var a store.Answer
		if parse(text, new(store.Item), &a) != nil {
			return
		}
		if a.Granted < 0 || a.Granted > 1e9 || a.Held < 0 || a.ValidFor < 0 || a.RetryAfter < 0 || a.ProbeFor < 0 || a.SlotsFor < 0 ||
			len(a.Cooldowns) > store.MaxScopes || store.CheckLimits(a.Limits) != nil || a.Probe > store.ProbeOther {
			t.Errorf("%q is %+v", text, a)
		}
		for _, c := range a.Cooldowns {
			if len(c.Scope) > 256 || c.Left < 0 || c.Left > store.MaxCool {
				t.Errorf("%q has %+v", text, c)
			}
		}
	})
}

// FuzzHint reads what anybody may have published.
func FuzzHint(f *testing.F) {
	f.Add("epoch 2 0: 100 7 10:tenant:a b 3600000000 8")
	f.Add("epoch 0")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		h := parseHint("k", text)
		if h.Key != "k" || len(h.Epoch) > maxEpoch || len(h.Cooldowns) > store.MaxScopes || h.Epoch == "" && h.Cooldowns != nil {
			t.Errorf("%q is %+v", text, h)
		}
		for _, c := range h.Cooldowns {
			if len(c.Scope) > 256 || c.Left < 0 || c.Left > store.MaxCool {
				t.Errorf("%q has %+v", text, c)
			}
		}
	})
}

func TestHintsAreReadWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	const good = "e-1 2 0: 1500 7 12:tenant:a b:c 3600000000 8"
	h := parseHint("k", good)
	want := []store.Cooldown{{Left: 1500 * time.Microsecond, Gen: 7}, {Scope: "tenant:a b:c", Left: time.Hour, Gen: 8}}
	if h.Key != "k" || h.Epoch != "e-1" || !slices.Equal(h.Cooldowns, want) {
		t.Errorf("%q is %+v", good, h)
	}
	for _, bad := range []string{"", "cooldown", "e-1", "e-1 x", "e-1 3" + good[5:], "e-1 1" + good[5:], good + " 9", good[:len(good)-2],
		"e-1 1 0: -1 7", "e-1 1 0: 2678400000001 7", "e-1 1 3:a 5 7", strings.Repeat("e", 129) + " 1 0: 1500 7", strings.Repeat("cooldown", 10000)} {
		if h := parseHint("k", bad); h.Key != "k" || h.Epoch != "" || h.Cooldowns != nil {
			t.Errorf("%.50q is %+v", bad, h)
		}
	}
}

// What is no epoch of ours is not believed, as it could not be said.
func TestALongEpochIsRefused(t *testing.T) {
	t.Parallel()
	it := store.Item{Key: "k", Seq: 1}
	var a store.Answer
	reply := "node gov:{k} 1 0 " + strings.Repeat("e", 129) + " 0 0 0 0 - 0 0 0 0 0 1 0"
	if err := parse(reply, &it, &a); !errors.Is(err, errStrange) {
		t.Errorf("an epoch of %d bytes: %v", len(a.Epoch), err)
	}
	if err := parse(strings.Replace(reply, "ee", "e", 1), &it, &a); err != nil {
		t.Error(err)
	}
}

package judge_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
)

func start(t *testing.T, cfg judge.Config) *judge.Vendor {
	t.Helper()
	v, err := judge.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

var lastID int64

// get makes a call and returns how long it is told to wait.
func get(t *testing.T, v *judge.Vendor) time.Duration {
	t.Helper()
	lastID++
	return getID(t, v, lastID)
}

func getID(t *testing.T, v *judge.Vendor, id int64) time.Duration {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("%s?node=a&id=%d", v.URL(), id))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer r.Body.Close()
	ms, _ := strconv.Atoi(r.Header.Get("Retry-After-Ms"))
	if (r.StatusCode == http.StatusTooManyRequests) != (ms > 0) || ms == 0 && r.StatusCode != http.StatusOK {
		t.Errorf("status %s with a wait of %d ms", r.Status, ms)
	}
	return time.Duration(ms) * time.Millisecond
}

func TestAVendorRefusesWhatIsTooMuch(t *testing.T) {
	var log bytes.Buffer
	v := start(t, judge.Config{Limits: []judge.Limit{{Quota: 3, Per: time.Hour}}, Log: &log})
	for i := range 5 {
		if wait := get(t, v); (wait > 0) != (i >= 3) {
			t.Errorf("call %d is told to wait %v", i, wait)
		}
	}
	if got := v.Tally(); got.Calls != 5 || got.Refused != 2 || got.Paused != 0 {
		t.Errorf("%+v", got)
	}
	var h judge.History
	if err := h.Read(&log); err != nil || len(h.Records) != 5 {
		t.Fatalf("%d records, %v", len(h.Records), err)
	}
	if err := h.Windows(judge.Limit{Quota: 3, Per: time.Hour}, 0); err == nil {
		t.Error("the history has five calls, and the check finds three")
	}
	if err := h.Windows(judge.Limit{Quota: 5, Per: time.Hour}, 0); err != nil {
		t.Error(err)
	}
	if h.Arrived("a", 0, time.Now().UnixNano()) != 5 || h.Arrived("b", 0, time.Now().UnixNano()) != 0 {
		t.Error("the calls are another's")
	}
}

func TestCallsInAPauseMakeItLonger(t *testing.T) {
	v := start(t, judge.Config{MaxPause: 5 * time.Minute})
	v.Pause(time.Minute)
	if wait := get(t, v); wait != time.Minute {
		t.Errorf("the first call is told to wait %v, want a minute", wait)
	}
	for _, want := range []time.Duration{2 * time.Minute, 4 * time.Minute, 5 * time.Minute} {
		if wait := get(t, v); wait != want {
			t.Errorf("a call in the pause is told to wait %v, want %v", wait, want)
		}
	}
	if got := v.Tally(); got.Calls != 4 || got.Escalated != 3 || got.Paused != 3 {
		t.Errorf("%+v", got)
	}
}

func TestAWindowPasses(t *testing.T) {
	for _, aligned := range []bool{false, true} {
		v := start(t, judge.Config{Limits: []judge.Limit{{Quota: 1, Per: 20 * time.Millisecond, Aligned: aligned}}})
		for range 5 {
			get(t, v)
			time.Sleep(25 * time.Millisecond)
		}
		if got := v.Tally(); got.Refused != 0 {
			t.Errorf("aligned %v: %+v", aligned, got)
		}
	}
}

func TestAPauseEnds(t *testing.T) {
	v := start(t, judge.Config{})
	v.Pause(20 * time.Millisecond)
	get(t, v)
	time.Sleep(25 * time.Millisecond)
	if wait := get(t, v); wait != 0 {
		t.Errorf("after the pause a call is told to wait %v", wait)
	}
}

func TestCallsAtOnceAreCounted(t *testing.T) {
	v := start(t, judge.Config{Slots: 2, Hold: 300 * time.Millisecond})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { getID(t, v, int64(i)) })
	}
	wg.Wait()
	if got := v.Tally(); got.Most != 3 || got.Crowded != 1 {
		t.Errorf("%+v", got)
	}
	if get(t, v); v.Tally().Most != 3 {
		t.Error("calls that are over still count")
	}
}

func TestACallWithoutANumberIsNone(t *testing.T) {
	v := start(t, judge.Config{})
	r, err := http.Get(v.URL() + "?node=a")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusBadRequest || v.Tally().Calls != 0 {
		t.Errorf("%s, %+v", r.Status, v.Tally())
	}
}

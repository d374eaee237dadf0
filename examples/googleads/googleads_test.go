package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flyball-go/flyball/examples/internal/adsreport"
)

// slow is a quota at a pace that a busy machine keeps up with: what is on its way
// is within the grace, and what comes of its own accord is not.
var slow = []string{"-qps", "100", "-burst", "10", "-cooldown", "300ms", "-grace", "50ms", "-latency", "100ms", "-start-rate", "50", "-progress", "none"}

func noEnv(string) string { return "" }

// program runs the program in this process.
func program(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, noEnv, &out, &errs)
	return code, out.String(), errs.String()
}

// measurements reads -json, which must be one object with the given modes and
// nothing else.
func measurements(t *testing.T, text string, modes ...string) map[string]adsreport.Measured {
	t.Helper()
	var keys map[string]map[string]any
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&keys); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Errorf("more than one object: %q", text)
	}
	if got := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, modes) {
		t.Errorf("modes %v, want %v", got, modes)
	}
	want := []string{"calls", "calls_during_pause", "completed", "elapsed_ms", "escalations", "goodput_pct", "longest_pause_ms", "rate_limit_errors", "rows"}
	for m, fields := range keys {
		if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
			t.Errorf("%s has the fields %v, want %v", m, got, want)
		}
	}
	var ms map[string]adsreport.Measured
	if err := json.Unmarshal([]byte(text), &ms); err != nil {
		t.Fatal(err)
	}
	return ms
}

// The demonstration demonstrates: goroutines on their own make the pauses grow
// and get nothing done, a governor gets all done.
func TestThreeModes(t *testing.T) {
	code, out, errs := program(t, append(slow, "-json", "-accounts", "80", "-naive-limit", "2s")...)
	if code != exitOK || errs != "" {
		t.Fatalf("exit %d, %s", code, errs)
	}
	ms := measurements(t, out, "configured", "governed", "naive")
	if n := ms["naive"]; n.Escalations < 2 || n.Completed > 60 || n.DuringPause == 0 || n.LongestPause < 600 || n.Refused == 0 {
		t.Errorf("naive: %+v", n)
	}
	for _, m := range []string{"governed", "configured"} {
		g := ms[m]
		if g.Completed != 80 || g.DuringPause != 0 || g.Escalations != 0 || g.Calls != 82+g.Refused || g.Rows != ms["governed"].Rows || g.Rows == 0 {
			t.Errorf("%s: %+v", m, g)
		}
		if want := 100 * 80 / (100 * float64(g.ElapsedMillis) / 1000); g.GoodputPct < want-0.5 || g.GoodputPct > want+0.5 {
			t.Errorf("%s: goodput %v, want %v", m, g.GoodputPct, want)
		}
	}
	if r := ms["configured"].Refused; r != 0 {
		t.Errorf("configured: %d calls refused", r)
	}
}

// Tokens that end during the run, and answers that break off, lose nothing and
// count nothing twice: the totals are checked by the program.
func TestTokensAndFaults(t *testing.T) {
	code, out, errs := program(t, "-mode", "configured", "-accounts", "90", "-qps", "50", "-burst", "4", "-latency", "5ms", "-token-ttl", "1s",
		"-fault-rate", "0.02", "-batch", "40", "-progress", "none")
	if code != exitOK || errs != "" || !strings.Contains(out, "equal the server's own totals: yes") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestReports(t *testing.T) {
	for _, args := range [][]string{
		{"-report", "hourly"}, {"-report", "campaigns"},
		{"-query", "SELECT ad_group.id, metrics.clicks FROM ad_group WHERE segments.date DURING YESTERDAY AND metrics.clicks > 0"},
		{"-api-version", "v26"}, {"-conns", "1", "-workers", "1"}, {"-seed", "7"},
	} {
		code, out, errs := program(t, append(args, "-mode", "configured", "-accounts", "12", "-qps", "1000", "-progress", "none")...)
		if code != exitOK || !strings.Contains(out, "yes") {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
		}
	}
}

// What cannot be had is said, and fails.
func TestMissingReports(t *testing.T) {
	code, out, _ := program(t, "-mode", "governed", "-accounts", "5", "-progress", "none", "-query", "SELECT x FROM y")
	if code != exitFailed || !strings.Contains(out, "5 of 5 missing") || !strings.Contains(out, "BAD_RESOURCE_TYPE_IN_FROM_CLAUSE") {
		t.Errorf("exit %d\n%s", code, out)
	}
	code, out, _ = program(t, "-mode", "governed", "-accounts", "30", "-max-calls", "12", "-progress", "none", "-json")
	if m := measurements(t, out, "governed")["governed"]; code != exitFailed || m.Calls != 12 || m.Completed != 10 {
		t.Errorf("exit %d, %+v", code, m)
	}
	// An account that is not there fails, the others are reported.
	code, out, _ = program(t, "-mode", "configured", "-accounts", "5", "-customers", "123-456-7890", "-progress", "none")
	if code != exitFailed || !strings.Contains(out, "USER_PERMISSION_DENIED") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// The end of the context, which is Ctrl-C, lets run what runs and prints what
// was done.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	var watch writerFunc = func(p []byte) (int, error) {
		if !strings.Contains(string(p), "] 0/") { // some reports are there
			cancel()
		}
		return errs.Write(p)
	}
	code := run(ctx, []string{"-accounts", "1000", "-mode", "governed", "-json"}, noEnv, &out, watch)
	m := measurements(t, out.String(), "governed")["governed"]
	if code != exitInterrupted || m.Completed == 0 || m.Completed == 1000 || m.Calls > int64(m.Completed)+2+m.Refused {
		t.Errorf("exit %d, %+v: reports that ran were lost\n%s", code, m, errs.String())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestATotalThatDiffersIsAFailure(t *testing.T) {
	rs := []*adsreport.Result{{Mode: "naive", Total: 3}, {Mode: "governed", Total: 1, Measured: adsreport.Measured{Completed: 1}, Checked: true, Equal: true}}
	if !good(rs) {
		t.Error("naive may stay unfinished")
	}
	rs[1].Equal = false
	if good(rs) {
		t.Error("a total that differs is a failure")
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
)

// TestMain also is the process that spawn starts, with fewer of everything.
func TestMain(m *testing.M) {
	crowds["test/slices"] = crowd{prepare: func(n int) (func() error, error) {
		kept := make([][]byte, n)
		return func() error {
			for i := range kept {
				kept[i] = make([]byte, 4096)
			}
			return nil
		}, nil
	}}
	crowds["test/error"] = crowd{prepare: func(int) (func() error, error) {
		return func() error { return errors.New("no such luck\nat all") }, nil
	}}
	if id := os.Getenv(childEnv); id != "" {
		for name, c := range crowds {
			c.n = 500
			crowds[name] = c
		}
		os.Exit(child(id, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestCatalogue(t *testing.T) {
	id := regexp.MustCompile(`^([A-Z][1-9][0-9]*|IDLE)[a-z]*(/[0-9a-z]+)?$`)
	seen := make(map[string]bool)
	for _, r := range catalogue() {
		if !id.MatchString(r.id) || seen[r.id] {
			t.Errorf("row %q: not an id, or there twice", r.id)
		}
		seen[r.id] = true
		if r.what == "" || r.peer == "" || !slices.Contains([]string{"ns", "B", "calls", "seeds"}, r.unit) || r.measure == nil {
			t.Errorf("row %s is incomplete: %+v", r.id, r)
		}
	}
	for _, want := range strings.Fields(`
		A1/par A1/serial A2/par A2/serial A2count/par A2count/serial A2now/par A2now/serial
		A2slow/par A2slow/serial A3allow/par A3allow/serial A3reserve/par
		A3reserve/serial A3wait/par A3wait/serial A4allow/par A4allow/serial A4try/par
		A4try/serial A5/par A5/serial A5av/par A5av/serial A5avdo/par A5avdo/serial A5do/par
		A5do/serial A6floor/par A6floor/serial A6fs/par A6fs/serial A6gov/par A6gov/serial A6hm/par A6hm/serial
		A6t/par A6t/serial
		B1/1 B1/8 B1/64 B1/1024 B1bare/1 B1bare/64 B1floor/1 B1floor/64 B2/1 B2/8 B2/64 B2/1024 B3/1 B3/8 B3/64 B3/1024 B4/1 B4/8
		B4/64 B4/1024 B4fs/1 B4fs/8 B4fs/64 B4fs/1024 B4go/1 B4go/8 B4go/64 B4go/1024
		C1 C2hot/par C2hot/serial C2uniform/par C2uniform/serial
		D1a D1b D1c D1c/all D1d D2a D2a/stack D2b D2b/stack
		E1 E2/1 E2/16 E3/p50 E3/p99 E3mysql/p99 E4 E4bucket E5 E5sliding E6 E7/p99 E7none/p99 E8/cluster E8/sentinel
		F1 F1/refused F1/seeds F1/wait F1gov F1gov/gentle F1gov/refused F1gov/seeds F1gov/wait
		F1govdoc F1govdoc/gentle F1govdoc/refused F1govdoc/seeds F1govdoc/wait F2 F2/blind
		F2/refused F2/seeds F2/wait F2gov F2gov/gentle F2gov/refused F2gov/seeds F2gov/wait F2govblind
		F2govblind/gentle F2govblind/refused F2govblind/wait F3 F3/refused F3/seeds F3/wait F3gov F3gov/gentle F3gov/refused F3gov/seeds F3gov/wait
		F3govdoc F3govdoc/gentle F3govdoc/refused F3govdoc/seeds F3govdoc/wait F3govquota
		F3govquota/gentle F3govquota/refused F3govquota/wait F4/1 F4/64
		F4/1000 F5
		H1/par H1/serial H1quota/par H1quota/serial H2/par H2/serial H3/par H3/serial
		IDLE IDLE/used
		L1 L1/now L5 L6/8 L6/256 L6mysql/8 L6mysql/256
		Q1 Q1mixed
		S1
		V1 V2 V3
	`) {
		if !seen[want] {
			t.Errorf("row %s is not there", want)
		}
	}
}

func TestCompare(t *testing.T) {
	order := []string{"A1", "A2", "A10", "B1/1", "B1/8", "B1/64", "B4/1", "B4fs/1", "D1a", "D1c", "D1c/all", "D2", "IDLE"}
	for i, a := range order {
		for j, b := range order {
			if got := compare(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("compare(%s, %s) = %d", a, b, got)
			}
		}
	}
}

func TestPick(t *testing.T) {
	var all []row
	for _, id := range []string{"A1", "A10", "B1/1", "B1/16", "D1a", "D1b"} {
		all = append(all, row{id: id})
	}
	for _, c := range []struct{ names, want string }{
		{"A1", "A1"},
		{"A10", "A10"},
		{"D1", "D1a D1b"},
		{"D1b", "D1b"},
		{"B1", "B1/1 B1/16"},
		{"B1/1", "B1/1"},
		{"D1, A1,D1a", "A1 D1a D1b"}, // in the table's order, each once
		{"Z9", `there is no row "Z9"; there are A1, A10, B1/1, B1/16, D1a, D1b`},
		{"A1,", `there is no row ""; there are A1, A10, B1/1, B1/16, D1a, D1b`},
		{"D1c", `there is no row "D1c"; there are A1, A10, B1/1, B1/16, D1a, D1b`},
	} {
		some, err := pick(all, strings.Split(c.names, ","))
		var got []string
		for _, r := range some {
			got = append(got, r.id)
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("pick %q: got %q, want %q", c.names, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 100, 2}, 3}} {
		if got := median(c.v); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.v, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	yes, no := true, false
	noisy := []sample{{100, 1000, 1}, {900, 3000, 1}, {200, 1000, 1.04}} // ratios 0.1, 0.3, 0.2: not 200 / 1000
	for _, c := range []struct {
		name    string
		target  []bound
		samples []sample
		want    result
	}{
		{"ratios within passes", nil, []sample{{100, 1000, 0}, {900, 3000, 0}, {500, 1000, 0}},
			result{Ours: 500, PeerNS: 1000, Ratio: 0.3, Target: "-"}},
		{"ratio reached", []bound{{ratio, 0.2}}, noisy, result{Ours: 200, PeerNS: 1000, Ratio: 0.2, Allocs: 1, Target: "<= 0.2x", OK: &yes}},
		{"ratio missed", []bound{{ratio, 0.19}}, noisy, result{Ours: 200, PeerNS: 1000, Ratio: 0.2, Allocs: 1, Target: "<= 0.19x", OK: &no}},
		{"amount reached", []bound{{amount, 200}}, noisy, result{Ours: 200, PeerNS: 1000, Ratio: 0.2, Allocs: 1, Target: "<= 200 ns", OK: &yes}},
		{"amount missed", []bound{{amount, 199}}, noisy, result{Ours: 200, PeerNS: 1000, Ratio: 0.2, Allocs: 1, Target: "<= 199 ns", OK: &no}},
		{"one of two missed", []bound{{ratio, 0.2}, {allocs, 0}}, noisy, result{Ours: 200, PeerNS: 1000, Ratio: 0.2, Allocs: 1, Target: "<= 0.2x, <= 0 allocs", OK: &no}},
		{"rounding", []bound{{allocs, 0}}, []sample{{1.26, 3, 0.04}}, result{Ours: 1.3, PeerNS: 3, Ratio: 0.42, Target: "<= 0 allocs", OK: &yes}},
		{"a peer of nothing", nil, []sample{{1, 0, 0}}, result{Ours: 1, Target: "-"}},
	} {
		c.want.Row, c.want.Peer, c.want.Unit, c.want.what = "X1", "them", "ns", "this"
		got := judge(row{id: "X1", what: "this", peer: "them", unit: "ns", target: c.target}, c.samples)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// withRows has run see these rows only.
func withRows(t *testing.T, r ...row) {
	old := rows
	rows = r
	t.Cleanup(func() { rows = old })
}

// found returns what measure finds: always s.
func found(s sample) func(int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		all := make([]sample, passes)
		for i := range all {
			all[i] = s
		}
		return all, nil
	}
}

func fakeRows(t *testing.T) {
	withRows(t,
		row{id: "B10", what: "round trip", peer: "reference", unit: "ns", measure: found(sample{400, 200, 7})},
		row{id: "B9", what: "a fast thing", peer: "a slow thing", unit: "ns", target: []bound{{ratio, 0.1}, {allocs, 0}}, measure: found(sample{10, 500, 0})},
		row{id: "D1a", what: "a large thing", peer: "a thing", unit: "B", target: []bound{{amount, 300}}, measure: found(sample{301, 2795, 3})},
	)
}

func TestTable(t *testing.T) {
	fakeRows(t)
	var out, complaint strings.Builder
	if code := run(nil, &out, &complaint); code != 0 || complaint.Len() > 0 {
		t.Fatalf("exit code %d, %s", code, &complaint)
	}
	want := `
row  ours    peer    ratio   allocations  target                ok     what, beside which peer
B9   10 ns   500 ns  0.02x   0            <= 0.1x, <= 0 allocs  ok     a fast thing; a slow thing
B10  400 ns  200 ns  2x      7            -                     -      round trip; reference
D1a  301 B   2795 B  0.108x  3            <= 300 B              short  a large thing; a thing
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

func TestMarkdown(t *testing.T) {
	fakeRows(t)
	var out, complaint strings.Builder
	if code := run([]string{"-markdown", "-passes", "2"}, &out, &complaint); code != 0 || complaint.Len() > 0 {
		t.Fatalf("exit code %d, %s", code, &complaint)
	}
	heading, table, _ := strings.Cut(out.String(), "\n\n")
	if want := regexp.MustCompile(`^\d{4}-\d\d-\d\d, \d+ x [^|]+, ` + runtime.GOOS + "/" + runtime.GOARCH + ", " + regexp.QuoteMeta(runtime.Version()) + ", -passes 2$"); !want.MatchString(heading) {
		t.Errorf("the heading is %q", heading)
	}
	want := `
| row | ours | peer | ratio | allocations | target | ok | what, beside which peer |
|---|--:|--:|--:|--:|---|---|---|
| B9 | 10 ns | 500 ns | 0.02x | 0 | <= 0.1x, <= 0 allocs | ok | a fast thing; a slow thing |
| B10 | 400 ns | 200 ns | 2x | 7 | - | - | round trip; reference |
| D1a | 301 B | 2795 B | 0.108x | 3 | <= 300 B | short | a large thing; a thing |
`
	if got := "\n" + table; got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

func TestQuantityText(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "ns", "0 ns"}, {4.4, "ns", "4.4 ns"}, {63.44, "ns", "63.4 ns"}, {173.2, "ns", "173 ns"}, {9999, "ns", "9999 ns"},
		{10_000, "ns", "10 µs"}, {999_000, "ns", "999 µs"}, {1e6, "ns", "1 ms"}, {1e7, "ns", "10 ms"}, {4.0312e9, "ns", "4.03 s"}, {6e10, "ns", "60 s"}, {1e15, "ns", "1000000 s"},
		{1455, "B", "1455 B"}, {27_914_240, "B", "27.9 MB"}, {26_804, "calls", "26804 calls"}, {8.5, "calls", "8.5 calls"},
	} {
		if got := quantityText(c.v, c.unit); got != c.want {
			t.Errorf("%v %s: got %s, want %s", c.v, c.unit, got, c.want)
		}
	}
}

func TestProcessor(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC 7|2\nmodel name\t: other\n", "AMD EPYC 7/2"},
		{"processor\t: 0\nBogoMIPS\t: 50.00\n", "processors"},
		{"model name\t:\n", "processors"},
	} {
		file := t.TempDir() + "/cpuinfo"
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := processor(file); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := processor(t.TempDir() + "/none"); got != "processors" {
		t.Errorf("without a file: got %q", got)
	}
}

func TestJSON(t *testing.T) {
	fakeRows(t)
	var out, complaint strings.Builder
	if code := run([]string{"-json", "-rows", "D1,B10", "-passes", "2"}, &out, &complaint); code != 0 || complaint.Len() > 0 {
		t.Fatalf("exit code %d, %s", code, &complaint)
	}
	var got []map[string]any
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"row": "B10", "ours_ns": 400., "peer": "reference", "peer_ns": 200., "ratio": 2., "allocs": 7., "target": "-", "ok": nil, "unit": "ns"},
		{"row": "D1a", "ours_ns": 301., "peer": "a thing", "peer_ns": 2795., "ratio": 0.108, "allocs": 3., "target": "<= 300 B", "ok": false, "unit": "B"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

func TestJSONOfNothingIsAnArray(t *testing.T) {
	withRows(t, row{id: "A1", measure: func(int) ([]sample, error) { return nil, errors.New("out of order") }})
	var out, complaint strings.Builder
	code := run([]string{"-json"}, &out, &complaint)
	if code != 1 || out.String() != "[]\n" || complaint.String() != "bench: A1: out of order\n" {
		t.Errorf("code %d, out %q, err %q", code, &out, &complaint)
	}
}

func TestARowThatFailsLeavesTheOthers(t *testing.T) {
	withRows(t,
		row{id: "A1", measure: func(int) ([]sample, error) { return nil, errors.New("out of order") }},
		row{id: "A2", unit: "ns", measure: found(sample{1, 2, 0})},
	)
	var out, complaint strings.Builder
	code := run(nil, &out, &complaint)
	if code != 1 || !strings.Contains(out.String(), "\nA2 ") || complaint.String() != "bench: A1: out of order\n" {
		t.Errorf("code %d, out %q, err %q", code, &out, &complaint)
	}
}

func TestFlags(t *testing.T) {
	fakeRows(t)
	for _, c := range []struct {
		args string
		want string // of the one line
	}{
		{"-rows Z9", `bench: there is no row "Z9"; there are B9, B10, D1a`},
		{"-rows B9,", `bench: there is no row ""`},
		{"-rows B", `bench: there is no row "B"; there are`},
		{"-turbo", "bench: flag provided but not defined: -turbo"},
		{"-json -markdown", "bench: -json and -markdown are two forms"},
		{"-passes 0", "bench: -passes is 0, want 1 to 1000"},
		{"-passes many", `bench: invalid value "many" for flag -passes`},
		{"-rows", "bench: flag needs an argument: -rows"},
		{"B9", `bench: unexpected argument "B9"`},
	} {
		var out, complaint strings.Builder
		code := run(strings.Fields(c.args), &out, &complaint)
		got := complaint.String()
		if code != 2 || out.Len() > 0 || !strings.HasPrefix(got, c.want) || strings.Index(got, "\n") != len(got)-1 {
			t.Errorf("%s: exit code %d, out %q, err %q", c.args, code, &out, got)
		}
	}
	var out, complaint strings.Builder
	if code := run([]string{"-h"}, &out, &complaint); code != 0 || out.String() != usage || complaint.Len() > 0 {
		t.Errorf("-h: exit code %d, out %q, err %q", code, &out, &complaint)
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct{ submitters, n int }{{1, 1}, {1, 10}, {3, 10}, {8, 3}, {64, 1000}} {
		var calls, ops atomic.Int64
		if _, err := share(c.submitters, c.n, func(n int) error {
			calls.Add(1)
			ops.Add(int64(n))
			return nil
		}); err != nil {
			t.Error(err)
		}
		if int(calls.Load()) != c.submitters || int(ops.Load()) != c.n {
			t.Errorf("%d submitters, %d operations: %d and %d", c.submitters, c.n, calls.Load(), ops.Load())
		}
	}
	broken := errors.New("broken")
	for _, submitters := range []int{1, 8} {
		if _, err := share(submitters, 100, func(int) error { return broken }); err != broken {
			t.Errorf("%d submitters: got %v", submitters, err)
		}
	}
}

func TestTimed(t *testing.T) {
	var made, stopped, order []string
	double := func(name string, err error) side {
		return func() (func(int) error, func(), error) {
			made = append(made, name)
			return func(n int) error {
				if n > 5 {
					order = append(order, name)
				}
				time.Sleep(time.Duration(n) * 2 * time.Millisecond)
				return err
			}, func() { stopped = append(stopped, name) }, nil
		}
	}
	samples, err := timed(1, double("ours", nil), double("peer", nil))(2)
	if err != nil || len(samples) != 2 || samples[0].ours == 0 || samples[0].peer == 0 {
		t.Fatal(samples, err)
	}
	if want := "ours peer ours peer peer ours"; strings.Join(made, " ") != want || strings.Join(stopped, " ") != want {
		t.Errorf("made %v, stopped %v, want %s: calibrated, then in turn", made, stopped, want)
	}
	broken := errors.New("broken")
	if _, err := timed(1, double("ours", broken), double("peer", nil))(1); err != broken {
		t.Errorf("got %v", err)
	}
	if _, err := timed(1, double("ours", nil), double("peer", broken))(1); !errors.Is(err, broken) || err.Error() != "peer: broken" {
		t.Errorf("got %v", err)
	}
}

// What is measured does work: an operation that fails would be a fast one.
func TestSides(t *testing.T) {
	var ask governor.Ask
	for name, s := range map[string]side{
		"plain": plainDo(4), "pooled": pooledDo(4, ask), "submit": submitResult(4), "reference": referenceDo(4),
		"failsafe": failsafeAsync(4), "locked bucket": lockedBucket, "bucket": bareBucket, "x/time": timeRate,
	} {
		op, stop, err := s()
		if err != nil {
			t.Fatal(name, err)
		}
		if err := op(100); err != nil {
			t.Error(name, err)
		}
		if stop != nil {
			stop()
		}
	}
}

func TestReference(t *testing.T) {
	const workers = 4
	a, err := newReference(workers)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	var in, most, calls atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				v, err := a.do(context.Background(), "", func() (int, error) {
					n := in.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(10 * time.Microsecond)
					in.Add(-1)
					return int(calls.Add(1)), nil
				})
				if v == 0 || err != nil {
					t.Error(v, err)
				}
			}
		})
	}
	wg.Wait()
	if calls.Load() != 50*20 || most.Load() > workers {
		t.Errorf("%d calls, %d at once", calls.Load(), most.Load())
	}
}

func TestCrowds(t *testing.T) {
	for id := range crowds {
		t.Run(id, func(t *testing.T) {
			f, err := spawn(id)
			switch {
			case id == "test/error":
				if err == nil || err.Error() != "no such luck" {
					t.Errorf("got %v", err)
				}
			case err != nil:
				t.Error(err)
			case f.Bytes <= 0 || f.Mallocs <= 0:
				t.Errorf("%+v", f)
			case id == "test/slices" && (f.Bytes < 4096 || f.Bytes > 8192):
				t.Errorf("4096 bytes are %+v", f)
			}
		})
	}
	if _, err := spawn("nothing"); err == nil || err.Error() != `there is no crowd "nothing"` {
		t.Errorf("got %v", err)
	}
}

func TestRestSeesGoroutines(t *testing.T) {
	block := make(chan struct{})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { <-block })
	}
	if err := rest(0, 50*time.Millisecond); err == nil {
		t.Error("100 goroutines went unnoticed")
	}
	if err := rest(100, 10*time.Second); err != nil {
		t.Error(err)
	}
	close(block)
	wg.Wait()
}

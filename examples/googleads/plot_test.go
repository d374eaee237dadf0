package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adsreport"
)

// texts returns the texts of a picture, which must be well-formed.
func texts(t *testing.T, svg []byte) (found []string) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(svg))
	for inside := false; ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			inside = x.Name.Local == "text"
		case xml.EndElement:
			inside = false
		case xml.CharData:
			if inside {
				found = append(found, strings.TrimSpace(string(x)))
			}
		}
	}
}

// has reports whether a colour is in a picture.
func has(m image.Image, c color.Color) bool {
	want := color.NRGBAModel.Convert(c)
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			if color.NRGBAModel.Convert(m.At(x, y)) == want {
				return true
			}
		}
	}
	return false
}

// Every mode that ran is in the picture, whatever its file is called, and no other.
func TestPlotOfARun(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name string
		args []string
		want []mode
	}{
		{"goodput.svg", nil, allModes},
		{"a b & <c> \"d\" 'e' %s $(f) é\n.svg", []string{"-mode", "configured"}, []mode{configured}},
		{"goodput.PNG", nil, allModes},
		{"-x.png", []string{"-mode", "naive,governed"}, []mode{naive, governed}},
	} {
		file := filepath.Join(dir, tc.name)
		args := append(slices.Clone(slow), "-accounts", "40", "-naive-limit", "500ms", "-plot", file)
		code, out, errs := program(t, append(args, tc.args...)...)
		if code != exitOK || errs != "" || !strings.Contains(out, "equal the server's own totals: yes") && len(tc.want) > 1 {
			t.Fatalf("%q: exit %d\n%s%s", tc.name, code, out, errs)
		}
		drawn, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".svg") {
			said := texts(t, drawn)
			for _, m := range allModes {
				if got, want := slices.Contains(said, string(m)), slices.Contains(tc.want, m); got != want {
					t.Errorf("%q says %q: %s %v, want %v", tc.name, said, m, got, want)
				}
			}
			if !slices.Contains(said, "quota, 100/s") {
				t.Errorf("%q says %q, and not the quota", tc.name, said)
			}
			continue
		}
		m, err := png.Decode(bytes.NewReader(drawn))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Bounds().Size(); got != image.Pt(1440, 640) {
			t.Errorf("%q: %v pixels", tc.name, got)
		}
		for _, mode := range allModes {
			if got, want := has(m, colours[mode]), slices.Contains(tc.want, mode); got != want {
				t.Errorf("%q: %s drawn %v, want %v", tc.name, mode, got, want)
			}
		}
	}
}

// A file that cannot be had is said before the job, and nothing is left behind.
func TestPlotThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d.svg"), 0o777); err != nil {
		t.Fatal(err)
	}
	names := []string{"goodput", "goodput.pdf", "goodput.svgz", "svg", ".svg", "..png", "x.svg ", "x.svg\n", "x.png\x00", "\x00.png", "d.svg", "x.svg/", "none/x.svg", "no\nne/x.svg", strings.Repeat("x", 5000) + ".svg"}
	if os.Symlink(os.DevNull, filepath.Join(dir, "null.svg")) == nil {
		names = append(names, "null.svg")
	}
	before, _ := os.ReadDir(dir)
	for _, name := range names {
		code, out, errs := program(t, "-plot", dir+"/"+name)
		if code != exitUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "googleads: -plot ") {
			t.Errorf("%.20q: exit %d, stdout %q, stderr %.200q", name, code, out, errs)
		}
	}
	if left, err := os.ReadDir(dir); len(left) != len(before) {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A picture that is there is not lost to a job that could not even begin, and such a job
// leaves none.
func TestPlotOfNothing(t *testing.T) {
	old, fresh := filepath.Join(t.TempDir(), "old.svg"), filepath.Join(t.TempDir(), "fresh.svg")
	if err := os.WriteFile(old, []byte("kept"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{old, fresh} {
		if code, _, errs := program(t, "-refresh-token", "wrong", "-plot", file); code != exitFailed {
			t.Errorf("exit %d, %s", code, errs)
		}
	}
	if kept, err := os.ReadFile(old); string(kept) != "kept" {
		t.Errorf("%q, %v", kept, err)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty picture was left: %v", err)
	}
}

// A shorter picture takes the place of a longer one.
func TestPlotReplacesWhatWasThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "goodput.svg")
	if err := os.WriteFile(file, bytes.Repeat([]byte("old "), 1<<18), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := program(t, "-mode", "configured", "-accounts", "5", "-progress", "none", "-plot", file); code != exitOK {
		t.Fatalf("exit %d, %s", code, errs)
	}
	drawn, err := os.ReadFile(file)
	if err != nil || bytes.Contains(drawn, []byte("old ")) {
		t.Errorf("%d bytes, %v", len(drawn), err)
	}
	texts(t, drawn)
}

func TestGoodputInWindows(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		c      curve
		window time.Duration
		want   []float64 // time and rate, by turns
	}{
		{curve{elapsed: 300 * ms, done: []time.Duration{0, 1 * ms, 99 * ms, 100 * ms, 299 * ms}}, 100 * ms, []float64{0.05, 30, 0.15, 10, 0.25, 10}},
		{curve{elapsed: 260 * ms, done: []time.Duration{250 * ms}}, 100 * ms, []float64{0.05, 0, 0.15, 0, 0.23, 1 / 0.06}}, // half a window or more stands alone,
		{curve{elapsed: 240 * ms, done: []time.Duration{230 * ms}}, 100 * ms, []float64{0.05, 0, 0.17, 1 / 0.14}},          // less belongs to the one before
		{curve{elapsed: 40 * ms, done: []time.Duration{40 * ms, 41 * ms}}, 100 * ms, []float64{0.02, 50}},                  // the last one is counted as it ends
		{curve{elapsed: 200 * ms}, 100 * ms, []float64{0.05, 0, 0.15, 0}},
		{curve{}, 100 * ms, nil},
	} {
		var got []float64
		for _, p := range tc.c.rates(tc.window) {
			got = append(got, p.X, p.Y)
		}
		if !slices.EqualFunc(got, tc.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("%+v: %v, want %v", tc.c, got, tc.want)
		}
	}
}

func TestWindowSuitsTheRun(t *testing.T) {
	for _, tc := range []struct {
		elapsed time.Duration
		done    int
		want    time.Duration
	}{
		{8350 * time.Millisecond, 2000, 200 * time.Millisecond}, // some forty
		{8 * time.Second, 26, time.Second},                      // few reports: longer ones,
		{time.Hour, 3, 500 * time.Second},                       // eight, or nearly
		{time.Hour, 100_000, 100 * time.Second},
		{20 * time.Millisecond, 100, 2 * time.Millisecond},
		{0, 0, time.Millisecond},
	} {
		c := &curve{elapsed: tc.elapsed, done: make([]time.Duration, tc.done)}
		if got := window([]*result{{curve: *c}, {}}); got != tc.want {
			t.Errorf("%v, %d reports: %v, want %v", tc.elapsed, tc.done, got, tc.want)
		}
	}
}

func TestDrawingOfAnyResults(t *testing.T) {
	empty := &result{Result: &adsreport.Result{Mode: string(naive)}}
	paused := &result{Result: &adsreport.Result{Mode: string(governed)}, curve: curve{elapsed: time.Second, pauses: []pause{{0, 3 * time.Second}, {2 * time.Second, 4 * time.Second}}}}
	for _, rs := range [][]*result{{empty}, {paused}, {empty, paused}, nil} {
		for _, known := range []bool{false, true} {
			o := &options{quotaKnown: known}
			o.model.Quota.Rate = 250
			for _, format := range []string{"svg", "png"} {
				if _, err := draw(format, o, rs); err != nil {
					t.Errorf("%d results, %s: %v", len(rs), format, err)
				}
			}
		}
	}
}

func TestPausesAreOfTheRun(t *testing.T) {
	at := time.Now()
	sec := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	got := curveOf(at, sec(10), []time.Time{sec(3)}, []adsclient.Span{{From: sec(-1), To: sec(2)}, {From: sec(4), To: sec(5)}, {From: sec(9), To: sec(18)}, {From: sec(11), To: sec(12)}})
	want := []pause{{0, 2 * time.Second}, {4 * time.Second, 5 * time.Second}, {9 * time.Second, 10 * time.Second}}
	if !slices.Equal(got.pauses, want) || got.elapsed != 10*time.Second || !slices.Equal(got.done, []time.Duration{3 * time.Second}) {
		t.Errorf("%+v", got)
	}
}

package backoff_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/backoff"
)

func TestParseReadsWhatStringSays(t *testing.T) {
	exponential := backoff.Exponential{Initial: time.Second, Multiplier: 1.5, Max: time.Minute}
	for text, want := range map[string]backoff.Schedule{
		"1s":                             backoff.Constant(time.Second),
		"0s":                             backoff.None,
		" 1m30s ":                        backoff.Constant(90 * time.Second),
		"linear":                         backoff.Linear{},
		"linear 1s":                      backoff.Linear{Initial: time.Second},
		"linear up to 5s":                backoff.Linear{Max: 5 * time.Second},
		"linear 1s +2s up to 9s":         backoff.Linear{Initial: time.Second, Increment: 2 * time.Second, Max: 9 * time.Second},
		"exponential":                    backoff.Exponential{},
		"exponential 1s x1.5 up to 1m0s": exponential,
		"fibonacci 1s up to 1m":          backoff.Fibonacci{Initial: time.Second, Max: time.Minute},
		"decorrelated 500ms x3 up to 1m": backoff.Decorrelated{Initial: 500 * time.Millisecond, Multiplier: 3, Max: time.Minute},
		"5 times":                        backoff.Times(5),
		"0 times":                        backoff.Never,
		"full jitter(1s)":                backoff.FullJitter{Of: backoff.Constant(time.Second)},
		"equal jitter( 1s )":             backoff.EqualJitter{Of: backoff.Constant(time.Second)},
		"jitter 50%(1s)":                 backoff.FactorJitter{Of: backoff.Constant(time.Second), Factor: 0.5},
		"jitter +12.5%(1s)":              backoff.FactorJitter{Of: backoff.Constant(time.Second), Factor: 0.125, Upward: true},
		"max delay 3s(1s)":               backoff.MaxDelay(backoff.Constant(time.Second), 3*time.Second),
		"max elapsed 3s(1s)":             backoff.MaxElapsed(backoff.Constant(time.Second), 3*time.Second),
		"and(5 times, exponential 1s x1.5 up to 1m)": backoff.And(backoff.Times(5), exponential),
		"or(1s,2s)": backoff.Or(backoff.Constant(time.Second), backoff.Constant(2*time.Second)),
		"then(and(2 times, 1s), full jitter(linear))": backoff.Then(backoff.And(backoff.Times(2), backoff.Constant(time.Second)), backoff.FullJitter{Of: backoff.Linear{}}),
	} {
		got, err := backoff.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := backoff.Parse(fmt.Sprint(got))
		require.NoError(t, err, text)
		require.Equal(t, fmt.Sprint(got), fmt.Sprint(again), text)
	}
}

func TestParseRefusesAndSaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		"":                            `"" at byte 0`,
		"soon":                        `"soon" at byte 0`,
		"-1s":                         "a schedule, such as",
		"15":                          `want "times"`,
		"5 apples":                    `"apples" at byte 2`,
		"1s 2s":                       `"2s" at byte 3 of a schedule, want the end`,
		"exponentially":               "a schedule, such as",
		"exponential 0s":              "a duration above 0",
		"exponential 1s x0.5":         "a number of 1 or more",
		"exponential 1s xNaN":         "a number of 1 or more",
		"exponential 1s up to 0s":     "a duration above 0",
		"exponential 1m up to 1s":     "Initial",
		"exponential 1s xInf":         "Multiplier",
		"linear 1s +x":                "a duration above 0",
		"99999999999h":                "a schedule, such as",
		"0":                           `want "times"`,
		"jitter 0%(1s)":               "more than 0% up to 100%",
		"jitter 101%(1s)":             "more than 0% up to 100%",
		"jitter 50(1s)":               "more than 0% up to 100%",
		"full jitter":                 `want "("`,
		"full jitter(1s, 2s)":         "one schedule in brackets",
		"full jitter(1s":              `want "," or ")"`,
		"and()":                       "a schedule, such as",
		"max delay(1s)":               "a duration",
		"func":                        "a schedule, such as",
		"while(1s)":                   "a schedule, such as",
		"nil":                         "a schedule, such as",
		strings.Repeat("1", 1025):     "1025 bytes",
		strings.Repeat("and(", 17):    "16 schedules within each other",
		strings.Repeat("and(", 200):   "16 schedules within each other",
		"full jitter(full jitter(1s)": `want "," or ")"`,
	} {
		s, err := backoff.Parse(text)
		require.ErrorIs(t, err, backoff.ErrInvalid, text)
		require.ErrorContains(t, err, want, text)
		require.Nil(t, s, text)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1s", "linear 1s +2s up to 9s", "then(and(2 times, 1s), jitter +50%(exponential 1s x2 up to 1m))", "max delay 0s(fibonacci)", "decorrelated"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := backoff.Parse(text)
		if err != nil {
			if s != nil || !errors.Is(err, backoff.ErrInvalid) {
				t.Fatalf("%v and %v", s, err)
			}
			return
		}
		if err := backoff.Validate(s); err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprint(s)
		again, err := backoff.Parse(said)
		if len(said) > 1024 || strings.Contains(said, "jitter 0%") || strings.Contains(said, "jitter +0%") {
			return // longer with its defaults, or rounded
		}
		if err != nil || fmt.Sprint(again) != said {
			t.Fatalf("%q: %v, %v", said, again, err)
		}
		for n := range 3 {
			if d, _ := s.Next(backoff.Step{Attempt: n}); d < 0 {
				t.Fatal(d)
			}
		}
	})
}

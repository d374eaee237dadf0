package event

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnEventIsALineOfWhatIsSet(t *testing.T) {
	at := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	for want, e := range map[string]Event{
		"none": {},
		"2026-05-04T10:00:00.000Z acme cooling scope=host delay=30s until=2026-05-04T10:00:30.000Z source=\"Retry-After: 30\"": {
			Time: at, Kind: Cooling, Name: "acme", Scope: "host", Delay: 30 * time.Second, Until: at.Add(30 * time.Second), Source: "Retry-After: 30"},
		`"an api" gave up request=7 attempt=3 err="no\nmore"`: {Kind: GaveUp, Name: "an api", Request: 7, Attempt: 3, Err: errors.New("no\nmore")},
		`queued scope="tenant:a=b"`:                           {Kind: Queued, Scope: "tenant:a=b"},
		`injected err=""`:                                     {Kind: Injected, Err: errors.New("")},
		"invalid":                                             {Kind: 255},
	} {
		require.Equal(t, want, e.String())
		require.Equal(t, want, fmt.Sprintf("%v", e))
	}
}

func TestAnEventIsAGroupInALog(t *testing.T) {
	var out bytes.Buffer
	h := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	slog.New(h).Info("heard", "e", Event{Kind: Retry, Name: "acme", Request: 7, Attempt: 2, Delay: time.Second, Err: errors.New("no")})
	require.Equal(t, "level=INFO msg=heard e.kind=retry e.name=acme e.request=7 e.attempt=2 e.delay=1s e.err=no\n", out.String())
}

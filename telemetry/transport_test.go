package telemetry_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/httpx"
)

// answers sends the next status each time, after a second.
type answers struct {
	t    *testing.T
	next []int
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	require.True(a.t, trace.SpanFromContext(req.Context()).IsRecording(), "an attempt is within the span")
	time.Sleep(time.Second)
	code := a.next[0]
	a.next = a.next[1:]
	h := http.Header{}
	if code == 429 {
		h.Set("Retry-After", "15")
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader("x")), Request: req}, nil
}

func TestASpanOfARequestOverHTTPTellsOfEachAttemptAndItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t)
		wrapped := 0
		tr := tel.Transport(httpx.Config{
			Base: &answers{t, []int{429, 200, 404}},
			Wrap: func(next http.RoundTripper) http.RoundTripper { wrapped++; return next },
		})
		get := func() {
			resp, err := (&http.Client{Transport: tr}).Get("http://api.example.com/x?secret=1")
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		get()
		get()
		require.NoError(t, tr.Close())
		ended := spans.Ended()
		require.Len(t, ended, 2)
		s := ended[0]
		require.Equal(t, "api.example.com", s.Name())
		require.Equal(t, codes.Unset, s.Status().Code)
		require.Equal(t, []any{
			"0s flyball.attempt.started", map[string]any{"flyball.attempt": int64(1), "flyball.waited": 0.0},
			"1s flyball.attempt.ended", map[string]any{"flyball.attempt": int64(1), "error.message": "status 429 Too Many Requests", "error.type": "429"},
			"1s flyball.wait", map[string]any{"flyball.attempt": int64(2), "flyball.waited": 15.0, "error.message": "status 429 Too Many Requests", "error.type": "429"},
			"16s flyball.attempt.started", map[string]any{"flyball.attempt": int64(2), "flyball.waited": 15.0},
			"17s flyball.attempt.ended", map[string]any{"flyball.attempt": int64(2)},
		}, story(s))
		require.Equal(t, codes.Error, ended[1].Status().Code)
		require.Equal(t, "404", attrs(ended[1].Attributes())["error.type"])
		require.Equal(t, 1, wrapped)
	})
}

func TestARequestThatIsRefusedIsASpanWithoutAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t)
		g := plain(t, governor.PlainConfig{Name: "acme"})
		require.NoError(t, g.Close())
		tr := tel.Transport(httpx.Config{Governor: g, Base: &answers{t: t}})
		_, err := (&http.Client{Transport: tr}).Get("http://api.example.com")
		require.ErrorIs(t, err, governor.ErrClosed)
		s := spans.Ended()[0]
		require.Equal(t, "acme", s.Name())
		require.Equal(t, true, attrs(s.Attributes())["flyball.refused"])
		require.Empty(t, s.Events())
	})
}

func TestWrapThatReturnsNilFailsTheRequests(t *testing.T) {
	tel, _ := traced(t)
	tr := tel.Transport(httpx.Config{Wrap: func(http.RoundTripper) http.RoundTripper { return nil }})
	_, err := (&http.Client{Transport: tr}).Get("http://api.example.com")
	require.ErrorContains(t, err, "httpx: Config.Wrap returned nil")
}

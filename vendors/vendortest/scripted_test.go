package vendortest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/vendors/vendortest"
)

// calls makes one call and returns the status and the Retry-After of its answer.
func calls(h http.Handler, path string) (status int, after string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Header().Get("Retry-After")
}

func TestServerWithoutAScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := vendortest.NewServer(vendortest.ServerConfig{})
		require.NoError(t, err)
		for range 10 {
			status, _ := calls(s, "/")
			require.Equal(t, 200, status)
		}
		status, after := calls(s, "/")
		require.Equal(t, 429, status)
		require.Equal(t, "15", after)
		time.Sleep(2 * time.Second) // too early, and no longer under way
		_, after = calls(s, "/")
		require.Equal(t, "30", after, "who comes early waits twice as long")
		time.Sleep(30 * time.Second)
		status, _ = calls(s, "/")
		require.Equal(t, 200, status)
		saw := s.Totals()
		require.Equal(t, int64(11), saw.Accepted)
		require.Equal(t, int64(1), saw.Late)
		require.Equal(t, int64(1), saw.Escalations)
	})
}

func TestServerCountsAndAnswersByItsScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := vendortest.NewServer(vendortest.ServerConfig{
			Quota: vendortest.Quota{Burst: 5, Window: time.Minute, Lenient: true},
			Key:   func(r *http.Request) string { return r.URL.Path },
			Cost:  func(r *http.Request) int { n, _ := strconv.Atoi(r.URL.Query().Get("cost")); return n },
			Refuse: func(w http.ResponseWriter, _ *http.Request, v vendortest.Verdict) {
				w.WriteHeader(420)
				io.WriteString(w, v.Delay.String())
			},
			Answer: http.NotFoundHandler(),
		})
		require.NoError(t, err)
		for _, tc := range []struct {
			path   string
			status int
		}{{"/a?cost=3", 404}, {"/a?cost=3", 420}, {"/b?cost=5", 404}, {"/a?cost=2", 404}, {"/b?cost=6", 420}} {
			status, _ := calls(s, tc.path)
			require.Equal(t, tc.status, status, tc.path)
		}
		require.Equal(t, int64(5), s.Key("/a").Used)
		require.Equal(t, int64(1), s.Key("/a").Refused)
		require.Equal(t, int64(10), s.Totals().Used)
		require.Zero(t, s.Key("/c"))
	})
}

func TestServerRefusesWhatCannotFit(t *testing.T) {
	s, err := vendortest.NewServer(vendortest.ServerConfig{Cost: func(*http.Request) int { return 11 }})
	require.NoError(t, err)
	status, after := calls(s, "/")
	require.Equal(t, 413, status)
	require.Empty(t, after)
}

func TestServerConfigurationsThatMakeNoSense(t *testing.T) {
	_, err := vendortest.NewServer(vendortest.ServerConfig{Quota: vendortest.Quota{Rate: -1}})
	require.EqualError(t, err, "vendortest: Rate -1 is not a positive number")
	_, err = vendortest.NewServer(vendortest.ServerConfig{MaxKeys: -1})
	require.EqualError(t, err, "vendortest: negative number of keys -1")
}

package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/clients/internal/crowd"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// underway is how long calls may take that were sent before a refusal was heard.
const underway = 300 * time.Millisecond

func TestEachGoroutineGetsItsUserAndNoneCallsIntoAPause(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", "t")
	for name, cfg := range map[string]vendortest.GitHubConfig{
		"primary": {Core: &vendortest.Quota{Burst: 20, Window: time.Second, Lenient: true, Grace: underway}},
		"secondary": {
			Points:    &vendortest.Quota{Burst: 20, Window: time.Second, Sliding: true, Lenient: true},
			Secondary: &vendortest.Quota{Pause: time.Second, MaxPause: time.Minute, Grace: underway},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.REST = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Write([]byte(`{"login":"octocat","public_repos":8}`))
			})
			gitHub, err := vendortest.NewGitHub(cfg)
			if err != nil {
				t.Fatal(err)
			}
			const n = 30
			server := httptest.NewServer(crowd.Together(n, gitHub))
			defer server.Close()

			found, err := run(server.URL, slices.Repeat([]string{"octocat"}, n))
			if err != nil || found != n {
				t.Errorf("%d users found, %v; want %d", found, err, n)
			}
			saw := gitHub.Totals()
			if saw.Core.Accepted != n || saw.Core.Refused+saw.Secondary.Refused == 0 {
				t.Errorf("%+v, want %d calls let in, and others refused", saw, n)
			}
			if late := saw.Core.Late + saw.Secondary.Late; late > 0 || saw.Secondary.Escalations > 0 {
				t.Errorf("%d calls begun in a pause, %d escalations, want none", late, saw.Secondary.Escalations)
			}
		})
	}
}

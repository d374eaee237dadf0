package vendortest_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// grace is how long calls may still arrive at a vendor after its first refusal: the
// way back and the way there of distance.
const grace = 60 * time.Millisecond

// gitHubPause is that of GitHub's secondary limits.
var gitHubPause = &vendortest.Quota{Pause: time.Minute, MaxPause: time.Hour, Grace: grace}

// everyVendor are the runs of all vendors, with how many calls each lets in at once.
func everyVendor() map[string]func() (*politeRun, int64) {
	return map[string]func() (*politeRun, int64){
		"GitHub": func() (*politeRun, int64) {
			return gitHubRun(must(vendortest.NewGitHub(vendortest.GitHubConfig{
				Core:      &vendortest.Quota{Burst: 1000, Window: 12 * time.Minute, Round: time.Second, Lenient: true, Grace: grace},
				Secondary: gitHubPause,
			}))), 150
		},
		"GitHub GraphQL": func() (*politeRun, int64) {
			return gitHubQueries(must(vendortest.NewGitHub(vendortest.GitHubConfig{
				Cost: gitHubCost, GraphQL: &vendortest.Quota{Burst: 2000, Window: 12 * time.Minute, Round: time.Second, Lenient: true, Grace: grace},
				Secondary: gitHubPause,
			}))), 150
		},
		"GitHub mutations": func() (*politeRun, int64) {
			return gitHubMutations(must(vendortest.NewGitHub(vendortest.GitHubConfig{Secondary: gitHubPause}))), 150
		},
		"GitHub creations": func() (*politeRun, int64) {
			return gitHubCreations(must(vendortest.NewGitHub(vendortest.GitHubConfig{Secondary: gitHubPause}))), 80
		},
		"GitHub and seldom queries": func() (*politeRun, int64) {
			return gitHubSeldom(must(vendortest.NewGitHub(vendortest.GitHubConfig{Secondary: gitHubPause}))), 150
		},
		"GitHub at once": func() (*politeRun, int64) {
			return gitHubAtOnce(must(vendortest.NewGitHub(vendortest.GitHubConfig{
				REST: slow(), Data: func(string) (map[string]any, error) { time.Sleep(200 * time.Millisecond); return nil, nil },
				Secondary: gitHubPause,
			}))), 150
		},
		"OpenAI": func() (*politeRun, int64) {
			return openAIRun(must(vendortest.NewOpenAI(vendortest.OpenAIConfig{
				Requests: &vendortest.Quota{Rate: 500.0 / 60, Burst: 500, Lenient: true, Counted: true, Grace: grace},
				Tokens:   &vendortest.Quota{Rate: 500, Burst: 30_000, Lenient: true, Grace: grace},
			}))), 150
		},
		"Shopify REST": func() (*politeRun, int64) {
			return shopifyCalls(must(vendortest.NewShopify(vendortest.ShopifyConfig{
				REST: &vendortest.Quota{Rate: 2, Burst: 40, Lenient: true, Pause: 2 * time.Second, Grace: grace},
			}))), 40
		},
		"Shopify GraphQL": func() (*politeRun, int64) {
			bucket := governor.Limit{Limiter: must(limiter.NewBucket(limiter.BucketConfig{Rate: 50, Burst: 1000}))}
			return shopifyQueries(must(vendortest.NewShopify(vendortest.ShopifyConfig{
				GraphQL: &vendortest.Quota{Rate: 50, Burst: 1000, Lenient: true, Grace: grace}, Cost: shopifyCost,
			})), bucket), 30
		},
		"Meta":         func() (*politeRun, int64) { p, _ := metaRun(); return p, 150 },
		"Meta batch":   func() (*politeRun, int64) { p, _ := metaBatches(); return p, 100 },
		"MicrosoftAds": func() (*politeRun, int64) { p, _ := microsoftRun(); return p, 120 },
		"MicrosoftAds reports": func() (*politeRun, int64) {
			p, _ := microsoftReports(200*time.Millisecond, 100*time.Millisecond)
			return p, 30
		},
		"Google Ads": func() (*politeRun, int64) { p, _ := googleAdsRun(); return p, 100 },
	}
}

// Who was told nothing about a vendor runs into its limits, and still calls no
// vendor that it knows to be pausing.
func TestGovernedClientsWhoDoNotKnowTheQuotaObeyEveryPause(t *testing.T) {
	for name, vendor := range everyVendor() {
		t.Run(name, func(t *testing.T) {
			p, _ := vendor()
			p.limits = nil
			seconds := effort.Times(30)
			switch api, _, _ := strings.Cut(name, " "); api { // whose pauses are longer
			case "GitHub", "MicrosoftAds":
				seconds = effort.Times(150)
			case "Meta":
				seconds = effort.Times(1800)
			}
			p.virtually(t, time.Duration(seconds)*time.Second, func() {
				p.polite(t)
				refused := int64(0)
				for _, got := range p.totals() {
					refused += got.Refused
				}
				if refused == 0 {
					t.Error("nothing was refused, so that nothing was shown")
				}
			})
		})
	}
}

// The same, without a governor, by clients that obey each for itself.
func TestClientsThatObeyEachForItselfCallDuringPauses(t *testing.T) {
	for name, vendor := range everyVendor() {
		t.Run(name, func(t *testing.T) {
			p, _ := vendor()
			late := func() (n int64) {
				for _, got := range p.totals() {
					n += got.Late
				}
				return n
			}
			p.each(t, 40*time.Second, func() bool { return late() > 0 })
			if late() == 0 {
				t.Errorf("%+v, want calls during pauses", p.totals())
			}
		})
	}
}

// each runs callers that know nothing of each other, until they have been seen or it
// has taken so long.
func (p *politeRun) each(t *testing.T, long time.Duration, seen func() bool) {
	synctest.Test(t, func(t *testing.T) {
		ln := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		srv := &http.Server{Handler: p.handler}
		go func() { _ = srv.Serve(ln) }()
		tr := &http.Transport{DialContext: ln.dial, MaxIdleConnsPerHost: callers}
		c := &http.Client{Transport: &distance{tr}}
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil && !seen() {
				time.Sleep(100 * time.Millisecond)
			}
			cancel()
		})
		for caller := range callers {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					err := p.do(ctx, c, "http://vendor.test", caller, i)
					wait, limited := p.adapter.DelayError(err)
					if err == nil || !limited || wait <= 0 {
						wait = time.Duration(rand.IntN(5000)) * time.Millisecond // its own work
					}
					select {
					case <-ctx.Done():
					case <-time.After(wait):
					}
				}
			})
		}
		wg.Wait()
		tr.CloseIdleConnections()
		_ = srv.Shutdown(t.Context()) // waits for handlers
	})
}

func TestGovernedClientsArePoliteOnARealNetwork(t *testing.T) {
	for name, vendor := range everyVendor() {
		t.Run(name, func(t *testing.T) {
			p, n := vendor()
			p.really(t, n)
			p.polite(t)
		})
	}
}

func TestGovernedClientsArePoliteToGoogleAds(t *testing.T) {
	p, g := googleAdsRun()
	minutes := effort.Times(2)
	p.virtually(t, time.Duration(minutes)*time.Minute, func() {
		p.polite(t)
		goodput(t, "calls", g.Totals().Project.Used, 10*60*minutes)
	})
}

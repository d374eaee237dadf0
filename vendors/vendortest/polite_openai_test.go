package vendortest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// openAIRun asks two models, of which one has many small requests and one fewer
// large ones, so that each meets another limit first.
func openAIRun(o *vendortest.OpenAI) *politeRun {
	return &politeRun{
		adapter: vendors.OpenAI(), handler: o,
		limits: []governor.Limit{
			{Per: throttle.Bucket, Quota: limiter.QuotaConfig{Limit: 500, Per: time.Minute}},
			{Per: throttle.Bucket, Unit: "tokens", Quota: limiter.QuotaConfig{Limit: 30_000, Per: time.Minute}},
		},
		next: func(caller, i int) asked {
			model, tokens := "small", 10+i%20
			if caller%3 == 0 {
				model, tokens = "large", 100+i%400
			}
			return asked{
				method: "POST", path: "/v1/chat/completions", header: map[string]string{"Authorization": "Bearer k"},
				body: fmt.Sprintf(`{"model":%q,"max_tokens":%d,"messages":[{"role":"user","content":"hello"}]}`, model, tokens),
				ask:  governor.Ask{Bucket: model, Cost: tokens},
			}
		},
		totals: func() map[string]vendortest.Totals {
			return map[string]vendortest.Totals{"requests": o.Totals().Requests, "tokens": o.Totals().Tokens}
		},
	}
}

func TestGovernedClientsArePoliteToOpenAI(t *testing.T) {
	o := must(vendortest.NewOpenAI(vendortest.OpenAIConfig{}))
	p := openAIRun(o)
	minutes := effort.Times(1)
	p.virtually(t, time.Duration(minutes)*time.Minute, func() {
		p.polite(t)
		goodput(t, "requests of small", o.Key("Bearer k", "small").Requests.Used, 500*minutes)
		goodput(t, "tokens of large", o.Key("Bearer k", "large").Tokens.Used, 30_000*minutes)
	})
}

// A call that no time makes fit fails at once, and nobody else waits for it.
func TestGovernedClientsGetWhatIsTooLargeForOpenAIBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := must(vendortest.NewOpenAI(vendortest.OpenAIConfig{}))
		g := must(governor.New(governor.PlainConfig{Name: "openai", Vendor: vendors.OpenAI(), MaxWait: -1}))
		defer g.Close()
		began, sent := time.Now(), 0
		for tokens, status := range map[int]int{1 << 30: 429, 10: 200} {
			got, err := governor.Do(t.Context(), g.With(governor.Ask{Bucket: "gpt"}), "", governor.Func(func(context.Context) (int, error) {
				sent++
				r := send(o, asked{method: "POST", path: "/v1/chat/completions", header: map[string]string{"Authorization": "Bearer k"},
					body: fmt.Sprintf(`{"model":"gpt","max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, tokens)})
				if r.Status != 200 {
					return r.Status, &vendors.ResponseError{Response: r}
				}
				return r.Status, nil
			}))
			if got != status || (err != nil) != (status != 200) {
				t.Errorf("%d tokens: %d, %v", tokens, got, err)
			}
		}
		if d := time.Since(began); sent != 2 || d != 0 {
			t.Errorf("sent %d times in %v", sent, d)
		}
	})
}

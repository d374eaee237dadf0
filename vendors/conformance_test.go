package vendors

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// adapters says which adapter reads the cases of which vendor.
var adapters = map[string]func() Adapter{
	"amazon_ads":                 AmazonAds,
	"amazon_sp_api":              AmazonSPAPI,
	"anthropic":                  Anthropic,
	"atlassian":                  Atlassian,
	"aws":                        AWS,
	"azure":                      Azure,
	"cloudflare":                 Cloudflare,
	"discord":                    Discord,
	"dropbox":                    Dropbox,
	"generic_http":               HTTP,
	"github":                     GitHub,
	"gitlab":                     GitLab,
	"google_ads":                 GoogleAds,
	"google_api":                 GoogleAPI,
	"grpc":                       GRPC,
	"hubspot":                    HubSpot,
	"ietf_ratelimit":             HTTP,
	"linear":                     Linear,
	"linkedin":                   LinkedIn,
	"meta":                       Meta,
	"microsoft_ads":              MicrosoftAds,
	"microsoft_graph":            MicrosoftGraph,
	"notion":                     Notion,
	"openai":                     OpenAI,
	"openai_compatible":          OpenAI,
	"reddit":                     Reddit,
	"salesforce":                 Salesforce,
	"salesforce_marketing_cloud": SalesforceMarketingCloud,
	"shopify_graphql":            ShopifyGraphQL,
	"shopify_rest":               ShopifyREST,
	"slack":                      Slack,
	"spotify":                    Spotify,
	"stripe":                     Stripe,
	"tiktok_ads":                 TikTokAds,
	"tiktok_open_api":            TikTokOpenAPI,
	"twilio":                     Twilio,
	"x":                          X,
	"zendesk":                    Zendesk,
}

// vendorCase is one real answer and what it means. Delays are in milliseconds;
// null is unknown. GRPC cases have no status; their headers are trailers, and
// those that end in -bin are base64.
type vendorCase struct {
	ID          string            `json:"id"`
	Vendor      string            `json:"vendor"`
	Status      int               `json:"status"`
	Headers     map[string]string `json:"headers"`
	Body        string            `json:"body"`
	Now         time.Time         `json:"now"`
	GRPCCode    string            `json:"grpc_code"`
	GRPCMessage string            `json:"grpc_message"`
	Expect      struct {
		RateLimited bool           `json:"rate_limited"`
		Delay       any            `json:"delay_ms"`
		Accept      []any          `json:"accept_delay_ms"` // null, a number, or "max": the longest there is
		Kind        string         `json:"kind"`
		Learn       map[string]any `json:"learn"`
		Note        string         `json:"note"`
	} `json:"expect"`
}

// TestVendorCasesConformance holds every adapter to the cases of its vendors. The variable
// FLYBALL_VENDOR_CASES names another file of cases.
func TestVendorCasesConformance(t *testing.T) {
	seen := checkCases(t, cmp.Or(os.Getenv("FLYBALL_VENDOR_CASES"), "testdata/vendors.json"))
	for id := range adapters {
		if !seen[id] && os.Getenv("FLYBALL_VENDOR_CASES") == "" {
			t.Errorf("no case of vendor %q", id)
		}
	}
}

// Where a vendor's documents give a rule of which nobody has kept an answer, the answer
// in testdata/rules.json is made up by the rule.
func TestVendorRulesConformance(t *testing.T) {
	if seen := checkCases(t, "testdata/rules.json"); len(seen) != len(adapters) {
		t.Errorf("rules of %d vendors, want of all %d", len(seen), len(adapters))
	}
}

// checkCases tries the cases of a file, and returns the vendors that have one.
func checkCases(t *testing.T, file string) map[string]bool {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []vendorCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(cases) == 0 {
		t.Errorf("no case in %s", file)
	}
	seen := map[string]bool{}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			adapter, ok := adapters[c.Vendor]
			if !ok {
				t.Fatalf("no adapter for vendor %q", c.Vendor)
			}
			c.check(t, adapter())
		})
		seen[c.Vendor] = true
	}
	return seen
}

func (c *vendorCase) check(t *testing.T, a Adapter) {
	resp := c.response(t)
	err := fmt.Errorf("call: %w", &ResponseError{Response: resp})

	delay, limited := a.DelayError(err)
	if limited != c.Expect.RateLimited {
		t.Fatalf("limited %v, want %v (%s)", limited, c.Expect.RateLimited, c.Expect.Note)
	}
	sigs := a.Signals(err, resp.At)
	if limited != (len(sigs) > 0) {
		t.Fatalf("DelayError says limited %v, Signals %+v", limited, sigs)
	}
	if limited {
		accept := append([]any{c.Expect.Delay}, c.Expect.Accept...)
		if !slices.ContainsFunc(accept, func(want any) bool { return sameDelay(t, delay, want) }) {
			t.Errorf("delay %v, want one of %v ms (%s)", delay, accept, c.Expect.Note)
		}
		longest := slices.MaxFunc(sigs, func(a, b throttle.Signal) int { return cmp.Compare(a.Delay, b.Delay) })
		if longest.Delay != delay {
			t.Errorf("DelayError says %v, Signals %+v", delay, sigs)
		}
		if c.Expect.Kind != "" && longest.Kind.String() != c.Expect.Kind {
			t.Errorf("kind %v, want %s (%s)", longest.Kind, c.Expect.Kind, c.Expect.Note)
		}
	}
	if c.Expect.Learn != nil {
		c.checkLearned(t, a.Learn(resp), resp.At)
	}
}

func (c *vendorCase) response(t *testing.T) Response {
	r := Response{At: c.Now, Status: c.Status, Body: []byte(c.Body)}
	if r.At.IsZero() {
		r.At = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	}
	if c.Status != 0 {
		r.Header = http.Header{}
		for k, v := range c.Headers {
			r.Header.Set(k, v)
		}
		return r
	}
	code := slices.Index(codeNames[:], c.GRPCCode)
	if code < 0 {
		t.Fatalf("unknown gRPC code %q", c.GRPCCode)
	}
	r.Code, r.Message, r.Trailer = Code(code), c.GRPCMessage, map[string][]string{}
	for k, v := range c.Headers {
		if k = strings.ToLower(k); strings.HasSuffix(k, "-bin") {
			raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
			if err != nil {
				t.Fatal(err)
			}
			v = string(raw)
		}
		r.Trailer[k] = []string{v}
	}
	return r
}

// sameDelay compares a delay with one that a case allows.
func sameDelay(t *testing.T, got time.Duration, want any) bool {
	switch want := want.(type) {
	case nil:
		return got == throttle.Unknown
	case float64:
		return float64(got) == want*1e6
	case string:
		return want == "max" && got == math.MaxInt64
	default:
		t.Fatalf("a delay of type %T", want)
		return false
	}
}

// learned is what cases say of quotas, and how a Quota says the same. Rates are in
// thousandths, per cents whole.
var learned = map[string]func(throttle.Quota, time.Time) any{
	"limit":         func(q throttle.Quota, _ time.Time) any { return float64(q.Limit) },
	"remaining":     func(q throttle.Quota, _ time.Time) any { return float64(q.Remaining) },
	"used":          func(q throttle.Quota, _ time.Time) any { return float64(q.Limit - q.Remaining) },
	"cost":          func(q throttle.Quota, _ time.Time) any { return float64(q.Cost) },
	"reset_ms":      func(q throttle.Quota, at time.Time) any { return float64(q.Reset.Sub(at).Milliseconds()) },
	"window_ms":     func(q throttle.Quota, _ time.Time) any { return float64(q.Window.Milliseconds()) },
	"rate_per_s":    func(q throttle.Quota, _ time.Time) any { return milli(float64(q.Limit) / q.Window.Seconds()) },
	"restore_per_s": func(q throttle.Quota, _ time.Time) any { return milli(float64(q.Limit) / q.Window.Seconds()) },
	"unit":          func(q throttle.Quota, _ time.Time) any { return q.Unit },
	"name":          func(q throttle.Quota, _ time.Time) any { return q.Name },
	"resource":      func(q throttle.Quota, _ time.Time) any { return q.Name },
	"bucket":        func(q throttle.Quota, _ time.Time) any { return q.Name },
}

// notLearned are those that a Quota has no field for, as it has none for flags: who asks
// for a cost knows it, and Reddit gives no limit that "used" could be of.
func notLearned(vendor, field string) bool {
	return field == "requested_cost" || field == "used" && vendor == "reddit"
}

// says reports whether a quota has the value of a field, or, where the case's name for
// the field is none of learned, has the value at all.
func says(q throttle.Quota, at time.Time, field string, want any) bool {
	if says := learned[field]; says != nil {
		return says(q, at) == want
	}
	for _, says := range learned {
		if says(q, at) == want {
			return true
		}
	}
	return false
}

func milli(perSecond float64) float64 { return math.Round(perSecond * 1e3) }

// checkLearned looks for a quota that says everything that a case asks for. A nested
// object is another quota, and so is each per cent.
func (c *vendorCase) checkLearned(t *testing.T, got []throttle.Quota, at time.Time) {
	var find func(want map[string]any)
	find = func(want map[string]any) {
		asked := maps.Clone(want)
		maps.DeleteFunc(asked, func(k string, v any) bool {
			nested, isMap := v.(map[string]any)
			_, isFlag := v.(bool)
			switch {
			case isFlag:
				return true
			case isMap:
				find(nested)
				return true
			case strings.HasSuffix(k, "_pct"):
				left := math.Floor(max(0, 100-v.(float64)))
				find(map[string]any{"limit": 100., "remaining": left, "unit": "percent"})
				return true
			case strings.HasSuffix(k, "_per_s"):
				asked[k] = milli(v.(float64))
			}
			return notLearned(c.Vendor, k)
		})
		if len(asked) > 0 && !slices.ContainsFunc(got, func(q throttle.Quota) bool {
			for k, v := range asked {
				if !says(q, at, k, v) {
					return false
				}
			}
			return true
		}) {
			t.Errorf("learned %+v, want %v", got, asked)
		}
	}
	find(c.Expect.Learn)
	if len(c.Expect.Learn) == 0 && len(got) > 0 {
		t.Errorf("learned %+v, want nothing", got)
	}
}

package vendors

import (
	"reflect"
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// got builds an answer that was received at received.
func got(status int, body string, headers ...string) Response {
	return Response{Status: status, Header: header(headers...), Body: []byte(body), At: received}
}

// sig builds a signal without a source.
func sig(kind throttle.Kind, level throttle.Level, delay time.Duration) throttle.Signal {
	return throttle.Signal{Kind: kind, Scope: throttle.Scope{Level: level}, Delay: delay}
}

// final is sig for a call that must not be repeated.
func final(s throttle.Signal) throttle.Signal {
	s.NoRetry = true
	return s
}

type reading struct {
	name string
	r    Response
	want []throttle.Signal
}

// is is one signal, and notLimited none.
func is(kind throttle.Kind, level throttle.Level, delay time.Duration) []throttle.Signal {
	return []throttle.Signal{sig(kind, level, delay)}
}

var notLimited []throttle.Signal

// checkReadings compares all but the sources, which each signal with a delay has to
// have.
func checkReadings(t *testing.T, a Adapter, all []reading) {
	t.Helper()
	for _, tc := range all {
		sigs := a.Read(tc.r)
		for i := range sigs {
			if sigs[i].Source == "" && sigs[i].Delay != none {
				t.Errorf("%s: no source of %v", tc.name, sigs[i].Delay)
			}
			sigs[i].Source = ""
		}
		if len(sigs)+len(tc.want) > 0 && !reflect.DeepEqual(sigs, tc.want) {
			t.Errorf("%s: got %+v, want %+v", tc.name, sigs, tc.want)
		}
		checkAnswer(t, a, tc.r)
	}
}

type lesson struct {
	name string
	r    Response
	want []throttle.Quota
}

func checkLessons(t *testing.T, a Adapter, all []lesson) {
	t.Helper()
	for _, tc := range all {
		if q := a.Learn(tc.r); len(q)+len(tc.want) > 0 && !reflect.DeepEqual(q, tc.want) {
			t.Errorf("%s:\nlearned %+v\nwant    %+v", tc.name, q, tc.want)
		}
		checkAnswer(t, a, tc.r)
	}
}

// left builds a quota of calls for a level; -1 is not said.
func left(level throttle.Level, name string, remaining, limit int64) throttle.Quota {
	return throttle.Quota{Scope: throttle.Scope{Level: level}, Name: name, Limit: limit, Remaining: remaining, Cost: -1}
}

// until returns q with the end of its window.
func ends(q throttle.Quota, in time.Duration) throttle.Quota {
	q.Reset = received.Add(in)
	return q
}

// in returns q with its unit and window.
func in(q throttle.Quota, unit string, window time.Duration) throttle.Quota {
	q.Unit, q.Window = unit, window
	return q
}

const (
	burst, budget, atOnce, overload, lock, ban = throttle.KindBurst, throttle.KindQuota, throttle.KindConcurrency, throttle.KindOverload, throttle.KindLock, throttle.KindBan
	onHost, onTenant, onBucket, onRequest      = throttle.Host, throttle.Tenant, throttle.Bucket, throttle.Request
	sec                                        = time.Second
)

// httpAdapters are those of all HTTP APIs but the generic one.
var httpAdapters = func() map[string]Adapter {
	all := map[string]Adapter{}
	for id, make := range adapters {
		if id != "generic_http" && id != "ietf_ratelimit" && id != "grpc" {
			all[id] = make()
		}
	}
	return all
}()

// What holds for every vendor, whatever its own rules are.
func TestEveryHTTPAdapter(t *testing.T) {
	for id, a := range httpAdapters {
		for name, tc := range map[string]struct {
			r       Response
			limited bool
			delay   time.Duration
			kind    throttle.Kind
		}{
			"429":                   {r: got(429, ""), limited: true, delay: none},
			"429 of a proxy":        {r: got(429, "<html>429 Too Many Requests</html>", "Retry-After", "7"), limited: true, delay: 7 * sec},
			"429 with a date":       {r: got(429, "", "Retry-After", "Sat, 21 Nov 2026 10:00:30 GMT"), limited: true, delay: 29900 * ms},
			"429 in a fraction":     {r: got(429, "", "Retry-After", "0.25"), limited: true, delay: 250 * ms},
			"429 now":               {r: got(429, "", "Retry-After", "0"), limited: true},
			"429 negative":          {r: got(429, "", "Retry-After", "-1"), limited: true, delay: none},
			"429 past the end":      {r: got(429, "", "Retry-After", "9300000000"), limited: true, delay: longest},
			"429 and broken JSON":   {r: got(429, `{"error":{"code":`, "Retry-After", "3"), limited: true, delay: 3 * sec},
			"429 and other JSON":    {r: got(429, `[[],{},1,"x",null]`, "Retry-After", "3"), limited: true, delay: 3 * sec},
			"503 announced":         {r: got(503, "", "Retry-After", "5"), limited: true, delay: 5 * sec, kind: overload},
			"503":                   {r: got(503, "")},
			"529":                   {r: got(529, "")},
			"500":                   {r: got(500, "oops")},
			"502 of a proxy":        {r: got(502, "<html>", "Retry-After", "soon")},
			"401":                   {r: got(401, "{}", "Retry-After", "5")},
			"400":                   {r: got(400, "{}")},
			"404":                   {r: got(404, "", "Retry-After", "5")},
			"200":                   {r: got(200, "{}", "Retry-After", "5")},
			"301":                   {r: got(301, "", "Retry-After", "5")},
			"403":                   {r: got(403, "{}")},
			"200 with another text": {r: got(200, `{"ok":true,"message":"rate limit","data":{"error":null}}`)},
		} {
			sigs := a.Read(tc.r)
			if (len(sigs) > 0) != tc.limited {
				t.Errorf("%s: %s: got %+v", id, name, sigs)
				continue
			}
			if !tc.limited {
				continue
			}
			want := tc.delay
			if fixed, is := bare429[id]; is && want == none {
				want = fixed
			}
			if len(sigs) != 1 || sigs[0].Delay != want || tc.kind != 0 && sigs[0].Kind != tc.kind {
				t.Errorf("%s: %s: got %+v, want %v", id, name, sigs, want)
			}
		}
		if q := a.Learn(got(200, "{}")); len(q) > 0 {
			t.Errorf("%s learned %+v from nothing", id, q)
		}
	}
}

// bare429 are the documented waits after a 429 that says nothing more.
var bare429 = map[string]time.Duration{"github": time.Minute, "cloudflare": 5 * time.Minute}

// Good answers are most, and cost little to read.
func TestGoodAnswersCostFewAllocations(t *testing.T) {
	for name, tc := range map[string]struct {
		a           Adapter
		r           Response
		read, learn float64
	}{
		"GitHub": {GitHub(), got(200, `{"id":1}`, "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Reset", later, "X-RateLimit-Resource", "core"), 1, 3},
		"OpenAI": {OpenAI(), got(200, `{"id":1}`, "X-RateLimit-Limit-Requests", "60", "X-RateLimit-Remaining-Requests", "59", "X-RateLimit-Reset-Requests", "1s",
			"X-RateLimit-Limit-Tokens", "60", "X-RateLimit-Remaining-Tokens", "59", "X-RateLimit-Reset-Tokens", "6m0s"), 1, 2},
		"Stripe": {Stripe(), got(200, `{"id":1}`), 0, 0},
		"Slack":  {Slack(), got(200, `{"ok":true}`), 1, 0},
	} {
		read := testing.AllocsPerRun(100, func() { tc.a.Read(tc.r) })
		learn := testing.AllocsPerRun(100, func() { tc.a.Learn(tc.r) })
		if read > tc.read || learn > tc.learn {
			t.Errorf("%s: %v allocations to read, %v to learn", name, read, learn)
		}
	}
}

package vendortest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// metaLimit is one limit that a call is counted under.
type metaLimit struct {
	k             *Keyed
	key           string
	code, subcode int
	message       string
}

// call judges and answers one call.
func (m *Meta) call(token, method, path string, params url.Values) metaReply {
	token = short(token)
	switch {
	case !metaPath.MatchString(path):
		return metaFault(2500, 0, "Unknown path components: /"+path[:min(len(path), 100)])
	case method != http.MethodGet && method != http.MethodPost && method != http.MethodDelete:
		return metaFault(100, 33, "Unsupported "+strings.ToLower(method[:min(len(method), 16)])+" request.")
	}
	now := time.Now()
	object, _, _ := strings.Cut(path, "/")
	limits := m.limits(token, object, method, path)
	header := http.Header{}
	var refused *metaLimit
	for i := range limits {
		if !limits[i].k.Admit(limits[i].key, now).Accepted {
			refused = &limits[i]
			break
		}
	}
	m.usage(header, token, object, path, now)
	if refused != nil {
		a := metaFault(refused.code, refused.subcode, refused.message)
		a.header = header
		return a
	}
	value, err := m.cfg.Answer(method, path, params)
	if err != nil {
		a := metaFault(100, 0, "(#100) "+err.Error())
		a.header = header
		return a
	}
	return metaReply{http.StatusOK, header, value}
}

// limits are those that a call is counted under, in the order of the judgement.
func (m *Meta) limits(token, object, method, path string) (all []metaLimit) {
	add := func(k *Keyed, key string, code, subcode int, message string) {
		if k != nil {
			all = append(all, metaLimit{k, key, code, subcode, message})
		}
	}
	const calls = "There have been too many calls "
	switch {
	case strings.HasPrefix(object, "act_"):
		if method != http.MethodGet {
			add(m.mutations, object, 613, 5044001, "(#613) Calls to this api have exceeded the rate limit.")
		}
		add(m.account, token+"\x00"+object, 17, 2446079, "(#17) User request limit reached")
		if metaInsights(path) {
			add(m.insights, object, 80000, 2446079, "(#80000) "+calls+"from this ad-account. Wait a bit and try again.")
		} else {
			add(m.management, object, 80004, 2446079, "(#80004) "+calls+"to this ad-account. Wait a bit and try again.")
		}
	case strings.HasPrefix(object, "page_"):
		add(m.page, object, 32, 0, "(#32) Page request limit reached")
		add(m.app, token, 4, 1504022, "(#4) Application request limit reached")
	default:
		add(m.app, token, 4, 1504022, "(#4) Application request limit reached")
	}
	return all
}

func metaInsights(path string) bool { return strings.HasSuffix(path, "/insights") }

// usage writes the headers that say what is used. Access is regained when the pause
// is over, or, when all is used, when something comes back.
func (m *Meta) usage(h http.Header, token, object, path string, now time.Time) {
	if !strings.HasPrefix(object, "act_") {
		if m.app != nil {
			p := percentOf(m.app.Usage(token, now))
			h.Set("X-App-Usage", fmt.Sprintf(`{"call_count":%d,"total_cputime":%d,"total_time":%d}`, p, p/4, p/4))
		}
		return
	}
	if m.account != nil {
		u := m.account.Usage(token+"\x00"+object, now)
		h.Set("X-Ad-Account-Usage", fmt.Sprintf(`{"acc_id_util_pct":%d,"reset_time_duration":%s,"ads_api_access_tier":"standard_access"}`,
			percentOf(u), wholeSeconds(metaRegain(m.account, token+"\x00"+object, u, now))))
	}
	k, useCase := m.management, "ads_management"
	if metaInsights(path) {
		k, useCase = m.insights, "ads_insights"
	}
	if k == nil {
		return
	}
	u := k.Usage(object, now)
	p := percentOf(u)
	h.Set("X-Business-Use-Case-Usage", fmt.Sprintf(
		`{%q:[{"type":%q,"call_count":%d,"total_cputime":%d,"total_time":%d,"estimated_time_to_regain_access":%s,"ads_api_access_tier":"standard_access"}]}`,
		strings.TrimPrefix(object, "act_"), useCase, p, p/4, p/4, minutes(metaRegain(k, object, u, now))))
}

// metaRegain is how long a caller is to stay away; 0 when it need not.
func metaRegain(k *Keyed, key string, u Usage, now time.Time) time.Duration {
	if u.Used < u.Limit {
		return u.Pause
	}
	return max(u.Pause, k.engine(key).free(now, 1))
}

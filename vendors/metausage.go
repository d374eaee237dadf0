package vendors

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// maxUsage bounds the JSON in one of Meta's headers, in bytes. With several
// objects it is far longer than other headers.
const maxUsage = 8 << 10

// metaEntry is the use of one limit. The other headers have the same meaning under
// other names.
type metaEntry struct {
	Type    text `json:"type"`
	Calls   text `json:"call_count"`
	CPU     text `json:"total_cputime"`
	Time    text `json:"total_time"`
	Account text `json:"acc_id_util_pct"`
	App     text `json:"app_id_util_pct"`
	Minutes text `json:"estimated_time_to_regain_access"`
	Seconds text `json:"reset_time_duration"`
}

// metaUsage decodes one of Meta's headers.
func metaUsage(h http.Header, name string, v any) bool {
	all := h.Values(name)
	return len(all) == 1 && len(all[0]) <= maxUsage && decode([]byte(all[0]), v)
}

// metaObjects are the entries of the objects of X-Business-Use-Case-Usage.
func metaObjects(h http.Header) (ids []string, entries map[string]items[metaEntry]) {
	metaUsage(h, "X-Business-Use-Case-Usage", &entries)
	for id := range entries {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[:min(len(ids), maxItems)], entries
}

// minutes returns when access is regained; 0 when it is not blocked.
func (e *metaEntry) minutes() time.Duration {
	if d, ok := parseDecimal(string(e.Minutes), time.Minute); ok && len(e.Minutes) <= maxValue {
		return d
	}
	return 0
}

// metaDelay returns when access is regained, and which header says so; 0 when none
// does.
func metaDelay(h http.Header, useCase string) (time.Duration, string) {
	var named, any time.Duration
	found := false
	ids, entries := metaObjects(h)
	for _, id := range ids {
		for _, e := range entries[id] {
			any = max(any, e.minutes())
			if useCase != "" && strings.EqualFold(string(e.Type), useCase) {
				named, found = max(named, e.minutes()), true
			}
		}
	}
	if found {
		any = named
	}
	if any > 0 {
		return any, "X-Business-Use-Case-Usage: " + any.String()
	}
	var account metaEntry
	metaUsage(h, "X-Ad-Account-Usage", &account)
	d, _ := account.Seconds.seconds()
	return d, "X-Ad-Account-Usage: " + d.String()
}

func learnMeta(r Response, quotas []quota) []quota {
	quotas = metaLearned(r.Header, quotas)
	batch, _ := metaBatch(r)
	for _, in := range batch {
		quotas = metaLearned(in.Header, quotas)
	}
	return quotas[:min(len(quotas), maxItems)]
}

func metaLearned(h http.Header, quotas []quota) []quota {
	add := func(level throttle.Level, name string, reset time.Duration, used ...text) {
		if q := percent(name, used...); q.Remaining >= 0 {
			q.Scope.Level = level
			if reset > 0 {
				q.reset = reset
			}
			quotas = append(quotas, q)
		}
	}
	var app, account, insights metaEntry
	metaUsage(h, "X-App-Usage", &app)
	metaUsage(h, "X-Ad-Account-Usage", &account)
	metaUsage(h, "X-Fb-Ads-Insights-Throttle", &insights)
	add(throttle.Host, "app", 0, app.Calls, app.CPU, app.Time)
	reset, _ := account.Seconds.seconds()
	add(throttle.Tenant, "account", reset, account.Account)
	add(throttle.Host, "insights app", 0, insights.App)
	add(throttle.Tenant, "insights account", 0, insights.Account)
	ids, entries := metaObjects(h)
	for _, id := range ids {
		for _, e := range entries[id] {
			add(throttle.Tenant, line(id+"/"+string(e.Type), 100), e.minutes(), e.Calls, e.CPU, e.Time)
		}
	}
	return quotas
}

// percent is a quota of which a vendor tells what part is used, in per cent: of
// several numbers the highest.
func percent(name string, used ...text) quota {
	q := said(name)
	for _, u := range used {
		if f, ok := u.float(); ok && f >= 0 {
			left := int64(max(0, math.Floor(100-f+1e-9)))
			if q.Remaining < 0 || left < q.Remaining {
				q.Remaining = left
			}
		}
	}
	if q.Remaining >= 0 {
		q.Name, q.Unit, q.Limit = name, "percent", 100
	}
	return q
}

package throttle

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"
)

func TestASignalAndAQuotaAreLinesOfWhatIsSaid(t *testing.T) {
	at := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	for want, v := range map[string]any{
		"unknown host delay=0s": Signal{},
		`burst tenant:ann delay=30s no_retry source="Retry-After: 30"`: Signal{Kind: KindBurst, Scope: Scope{Level: Tenant, Key: "ann"}, Delay: 30 * time.Second, NoRetry: true, Source: "Retry-After: 30"},
		"ban host delay=unknown":                    Signal{Kind: KindBan, Delay: Unknown},
		"quota host until=2026-05-04T10:00:00.000Z": Signal{Kind: KindQuota, Delay: Unknown, Until: at},
		"calls of host":                             Quota{Limit: -1, Remaining: -1, Cost: -1},
		"calls of host 3 left cost=0":               Quota{Limit: -1, Remaining: 3},
		"calls of host limit=10 cost=2":             Quota{Limit: 10, Remaining: -1, Cost: 2},
		`tokens of bucket:small "day" 4 of 30 left per=1m0s until=2026-05-04T10:00:00.000Z cost=1`: Quota{
			Scope: Scope{Level: Bucket, Key: "small"}, Name: "day", Unit: "tokens", Limit: 30, Window: time.Minute, Remaining: 4, Reset: at, Cost: 1},
	} {
		if got := fmt.Sprint(v); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestASignalIsAGroupInALog(t *testing.T) {
	at := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	for want, s := range map[string]Signal{
		"s.kind=unknown s.scope=host s.delay=0s":                               {},
		"s.kind=unknown s.scope=host s.delay=unknown":                          {Delay: Unknown},
		"s.kind=ban s.scope=host s.until=2026-05-04T10:00:00.000Z s.source=me": {Kind: KindBan, Until: at, Source: "me"},
		"s.kind=lock s.scope=request s.delay=1s s.no_retry=true":               {Kind: KindLock, Scope: Scope{Level: Request}, Delay: time.Second, NoRetry: true},
	} {
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "s", s)
		if _, got, _ := bytes.Cut(out.Bytes(), []byte("msg=m ")); string(got) != want+"\n" {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

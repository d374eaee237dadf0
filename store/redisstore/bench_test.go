package redisstore

import (
	"strings"
	"testing"

	"github.com/flyball-go/flyball/store"
)

func BenchmarkExchange(b *testing.B) {
	s, r := one(b)
	a := newAsker(b, s, "k", hourly(1e9))
	a.ask(1)
	r.Must("CONFIG", "RESETSTAT")
	b.ReportAllocs()
	for b.Loop() {
		as, err := s.Exchange(b.Context(), a.node, []store.Item{a.item(1)})
		if err != nil || as[0].Granted != 1 {
			b.Fatal(as, err)
		}
	}
	b.StopTimer()
	_, text, _ := strings.Cut(r.Must("INFO", "commandstats"), "evalsha:")
	b.Logf("%.80s", text)
}

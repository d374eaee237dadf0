package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/clients/internal/polite"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

func TestEachGoroutinePostsAndNoneCallsIntoAPause(t *testing.T) {
	for name, status := range map[string]int{"429": 429, "200": 200} {
		t.Run(name, func(t *testing.T) {
			polite.Check(t, vendortest.ServerConfig{
				Quota:  vendortest.Quota{Burst: 10, Rate: 20, Lenient: true, Pause: time.Second, Round: time.Second},
				Key:    func(r *http.Request) string { return r.URL.Path }, // the method
				Refuse: polite.Refuse(status, `{"ok":false,"error":"ratelimited"}`, "Retry-After", time.Second),
				Answer: polite.JSON(200, `{"ok":true,"channel":"C1","ts":"1.2"}`),
			}, 20, func(url string, n int) (int, error) { return run(url+"/api/", "C1", slices.Repeat([]string{"hi"}, n)) })
		})
	}
}

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/clients/internal/polite"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

func TestEachGoroutineGetsItsAnswerAndNoneCallsIntoAPause(t *testing.T) {
	polite.Check(t, vendortest.ServerConfig{
		Quota:  vendortest.Quota{Burst: 10, Rate: 20, Lenient: true, Round: time.Second},
		Refuse: polite.Refuse(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, "Retry-After", time.Second),
		Answer: polite.JSON(200, `{"id":"1","type":"message","role":"assistant","content":[{"type":"text","text":"Rayleigh"}]}`),
	}, 20, func(url string, n int) (int, error) { return run(url, "sk-test", slices.Repeat([]string{"why?"}, n)) })
}

package main

import (
	"slices"
	"testing"

	"github.com/flyball-go/flyball/examples/clients/internal/strict"
)

func TestNoGoroutineCallsIntoThePause(t *testing.T) {
	api := &strict.API{
		Refuse: strict.JSON(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, "Retry-After", "1"),
		Answer: strict.JSON(200, `{"id":"1","type":"message","role":"assistant","content":[{"type":"text","text":"Rayleigh"}]}`),
	}
	api.Check(t, 20, func(url string, n int) (int, error) { return run(url, "sk-test", slices.Repeat([]string{"why?"}, n)) })
}

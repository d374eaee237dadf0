package main

import (
	"slices"
	"testing"

	"github.com/flyball-go/flyball/examples/clients/internal/strict"
)

func TestNoGoroutineCallsIntoThePause(t *testing.T) {
	api := &strict.API{
		Refuse: strict.JSON(429, `{"error":{"message":"Rate limit reached. Please try again in 1s.","type":"requests","code":"rate_limit_exceeded"}}`, "Retry-After-Ms", "1000"),
		Answer: strict.JSON(200, `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Rayleigh"}}]}`),
	}
	api.Check(t, 20, func(url string, n int) (int, error) { return run(url, "sk-test", slices.Repeat([]string{"why?"}, n)) })
}

package main

import (
	"slices"
	"testing"

	"github.com/flyball-go/flyball/examples/clients/internal/strict"
)

func TestNoGoroutineCallsIntoThePause(t *testing.T) {
	api := &strict.API{
		Refuse: strict.JSON(403, `{"message":"You have exceeded a secondary rate limit.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`, "Retry-After", "1"),
		Answer: strict.JSON(200, `{"login":"octocat","public_repos":8}`),
	}
	api.Check(t, 20, func(url string, n int) (int, error) { return run(url, slices.Repeat([]string{"octocat"}, n)) })
}

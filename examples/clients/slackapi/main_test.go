package main

import (
	"slices"
	"testing"

	"github.com/flyball-go/flyball/examples/clients/internal/strict"
)

func TestNoGoroutineCallsIntoThePause(t *testing.T) {
	for name, status := range map[string]int{"429": 429, "200": 200} {
		t.Run(name, func(t *testing.T) {
			api := &strict.API{
				Refuse: strict.JSON(status, `{"ok":false,"error":"ratelimited"}`, "Retry-After", "1"),
				Answer: strict.JSON(200, `{"ok":true,"channel":"C1","ts":"1.2"}`),
			}
			api.Check(t, 20, func(url string, n int) (int, error) { return run(url+"/api/", "C1", slices.Repeat([]string{"hi"}, n)) })
		})
	}
}

package main

import (
	"slices"
	"testing"

	"github.com/flyball-go/flyball/examples/clients/internal/strict"
)

func TestNoGoroutineCallsIntoThePause(t *testing.T) {
	api := &strict.API{
		Refuse: strict.JSON(400, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"Rate exceeded"}`, "Retry-After", "1", "X-Amzn-Errortype", "ThrottlingException"),
		Answer: strict.JSON(200, `{"Item":{"id":{"S":"1"}}}`),
	}
	api.Check(t, 20, func(url string, n int) (int, error) {
		return run(url, "id", "secret", "table", slices.Repeat([]string{"1"}, n))
	})
}

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/clients/internal/polite"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

func TestEachGoroutineGetsItsItemAndNoneCallsIntoAPause(t *testing.T) {
	polite.Check(t, vendortest.ServerConfig{
		Quota:  vendortest.Quota{Burst: 10, Rate: 20, Lenient: true, Pause: time.Second},
		Refuse: polite.Refuse(400, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"Rate exceeded"}`, "X-Amz-Retry-After", time.Millisecond),
		Answer: polite.JSON(200, `{"Item":{"id":{"S":"1"}}}`),
	}, 20, func(url string, n int) (int, error) {
		return run(url, "id", "secret", "table", slices.Repeat([]string{"1"}, n))
	})
}

package main

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/clients/internal/crowd"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

func TestEachGoroutineGetsItsAnswerAndNoneCallsIntoAPause(t *testing.T) {
	openAI, err := vendortest.NewOpenAI(vendortest.OpenAIConfig{
		// Calls that were sent before a refusal was heard may take as long as Grace.
		Requests: &vendortest.Quota{Rate: 20, Burst: 5, Lenient: true, Counted: true, Grace: 300 * time.Millisecond},
		Scale:    0.01, // of the tokens
	})
	if err != nil {
		t.Fatal(err)
	}
	const n = 20
	server := httptest.NewServer(crowd.Together(n, openAI))
	defer server.Close()

	answers, err := run(server.URL+"/v1/", "sk-test", slices.Repeat([]string{"why?"}, n))
	if err != nil || answers != n {
		t.Errorf("%d answers, %v; want %d", answers, err, n)
	}
	if saw := openAI.Totals().Requests; saw.Accepted != n || saw.Refused == 0 || saw.Late > 0 {
		t.Errorf("%+v, want %d calls let in, others refused, and none begun in a pause", saw, n)
	}
}

package fakeads_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
	"github.com/flyball-go/flyball/vendors"
)

func TestTokens(t *testing.T) {
	for name, tc := range map[string]struct {
		tokens *adsclient.Tokens
		want   string
	}{
		"wrong":     {adsclient.StaticToken("nonsense"), "OAUTH_TOKEN_INVALID"},
		"malformed": {adsclient.StaticToken(""), "OAUTH_TOKEN_HEADER_INVALID"},
	} {
		b := serve(t, fakeads.Config{Quota: ample}, func(c *adsclient.Config) { c.Tokens = tc.tokens })
		_, err := b.search(b.root(), daily)
		if e, ok := errors.AsType[*vendors.ResponseError](err); !ok || e.Code != vendors.CodeUnauthenticated || codeOf(err) != tc.want {
			t.Errorf("%s: %v", name, err)
		}
		if seen := b.server.Seen(); seen.Calls != 0 {
			t.Errorf("%s: a call without identity was charged: %+v", name, seen)
		}
	}
	for name, change := range map[string]func(*adsclient.Credentials){
		"invalid_grant":  func(c *adsclient.Credentials) { c.RefreshToken = "1//no" },
		"invalid_client": func(c *adsclient.Credentials) { c.ClientSecret = "no" },
	} {
		b := serve(t, fakeads.Config{Quota: ample})
		creds := adsclient.Credentials{ClientID: fakeads.ClientID, ClientSecret: fakeads.ClientSecret, RefreshToken: fakeads.RefreshToken, TokenURL: "http://" + b.addr + "/token"}
		change(&creds)
		tokens, err := adsclient.NewTokens(creds, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tokens.Close()
		if _, err := tokens.Token(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run that is longer than the life of its tokens has no call that fails for it.
func TestTokenRenewedWhileRunning(t *testing.T) {
	b := serve(t, fakeads.Config{Quota: ample, TokenTTL: time.Second})
	ids := b.customers()
	first, err := b.tokens.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < 2200*time.Millisecond; {
		for _, id := range ids[:5] {
			if _, err := b.search(id, daily); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	if now, _ := b.tokens.Token(t.Context()); now == first {
		t.Error("the token was never renewed")
	}
}

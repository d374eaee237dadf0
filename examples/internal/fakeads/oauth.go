package fakeads

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adspb"
)

// The credentials that the server knows. They open nothing but it.
const (
	ClientID     = "flyball-demo.apps.googleusercontent.com"
	ClientSecret = "flyball-demo-secret"
	RefreshToken = "1//flyball-demo-refresh-token"
)

// oauth exchanges the refresh token for access tokens, and knows those it gave.
type oauth struct {
	ttl    time.Duration
	mu     sync.Mutex           // guards tokens
	tokens map[string]time.Time // access token -> end
}

// remembered bounds how many tokens are kept to tell an old one from a wrong
// one.
const remembered = 10_000

// ServeHTTP answers POST /token.
func (o *oauth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	answer := func(code int, body map[string]any) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(body) // the client has gone
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	switch {
	case r.PostFormValue("client_id") != ClientID:
		answer(http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": "The OAuth client was not found."})
	case r.PostFormValue("client_secret") != ClientSecret:
		answer(http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": "Unauthorized"})
	case r.PostFormValue("grant_type") != "refresh_token":
		answer(http.StatusBadRequest, map[string]any{"error": "unsupported_grant_type", "error_description": "Invalid grant_type"})
	case r.PostFormValue("refresh_token") != RefreshToken:
		answer(http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "Bad Request"})
	default:
		answer(http.StatusOK, map[string]any{"access_token": o.issue(time.Now()), "expires_in": int(o.ttl.Seconds()),
			"scope": "https://www.googleapis.com/auth/adwords", "token_type": "Bearer"})
	}
}

// issue makes a new access token.
func (o *oauth) issue(now time.Time) string {
	token := "ya29." + rand.Text()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.tokens) >= remembered {
		for t, end := range o.tokens {
			if now.After(end) {
				delete(o.tokens, t)
			}
		}
	}
	o.tokens[token] = now.Add(o.ttl)
	return token
}

// check judges the authorization header of a call.
func (o *oauth) check(header []string, now time.Time) *refusal {
	const scheme = "Bearer "
	if len(header) != 1 || len(header[0]) <= len(scheme) || header[0][:len(scheme)] != scheme {
		return authenticationError(adspb.AuthenticationErrorEnum_OAUTH_TOKEN_HEADER_INVALID, "Authorization header is missing or malformed.")
	}
	o.mu.Lock()
	end, known := o.tokens[header[0][len(scheme):]]
	o.mu.Unlock()
	switch {
	case !known:
		return authenticationError(adspb.AuthenticationErrorEnum_OAUTH_TOKEN_INVALID, "OAuth token in the header is not valid.")
	case now.After(end):
		return authenticationError(adspb.AuthenticationErrorEnum_OAUTH_TOKEN_EXPIRED, "OAuth token in the header has expired.")
	}
	return nil
}

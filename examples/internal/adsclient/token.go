package adsclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Credentials are an OAuth client and a refresh token of its user.
type Credentials struct {
	ClientID     string
	ClientSecret string
	RefreshToken string
	TokenURL     string // where access tokens are had
}

// Tokens hands out access tokens. A token is renewed in the background before it
// ends, so that a call in time never waits for one. All methods are safe for
// simultaneous use by multiple goroutines.
type Tokens struct {
	creds  Credentials
	client *http.Client
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wait   sync.WaitGroup // renewals in the background

	turn chan struct{} // held while a token is fetched: one at a time

	mu    sync.Mutex // guards the fields below; nothing is called while it is held
	token string
	renew time.Time // from when on a new one is fetched,
	end   time.Time // and from when on the old one is not used
}

// StaticToken hands out one token for ever.
func StaticToken(token string) *Tokens {
	t := newTokens(Credentials{}, nil)
	t.token, t.renew, t.end = token, forever, forever
	return t
}

var forever = time.Unix(1<<40, 0)

// NewTokens returns a source of tokens. ca is the PEM of the roots to trust; nil:
// the system's. Close must be called.
func NewTokens(creds Credentials, ca []byte) (*Tokens, error) {
	roots, err := rootsOf(ca)
	if err != nil {
		return nil, err
	}
	return newTokens(creds, roots), nil
}

func newTokens(creds Credentials, roots *x509.CertPool) *Tokens {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	t := &Tokens{creds: creds, client: &http.Client{Transport: transport, Timeout: 30 * time.Second}, turn: make(chan struct{}, 1)}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Close ends renewals in the background.
func (t *Tokens) Close() {
	t.cancel()
	t.wait.Wait()
	t.client.CloseIdleConnections()
}

// Token returns an access token; only when there is none in time, it waits for
// one.
func (t *Tokens) Token(ctx context.Context) (string, error) {
	now := time.Now()
	t.mu.Lock()
	token, renew, end := t.token, t.renew, t.end
	t.mu.Unlock()
	if now.Before(renew) {
		return token, nil
	}
	if now.Before(end) {
		select {
		case t.turn <- struct{}{}:
			t.wait.Go(func() {
				defer func() { <-t.turn }()
				t.fetch(t.ctx) // whoever needs the next one will see
			})
		default: // someone does it already
		}
		return token, nil
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	t.mu.Lock()
	token, end = t.token, t.end
	t.mu.Unlock()
	if time.Now().Before(end) { // it came while this call waited its turn
		return token, nil
	}
	return t.fetch(ctx)
}

// TokenError says why there is no access token.
type TokenError struct{ Err error }

// Error says what went wrong.
func (e *TokenError) Error() string { return "adsclient: access token: " + e.Err.Error() }

// Unwrap returns Err.
func (e *TokenError) Unwrap() error { return e.Err }

// fetch gets a new token. The caller holds turn.
func (t *Tokens) fetch(ctx context.Context) (string, error) {
	asked := time.Now()
	token, life, err := t.exchange(ctx)
	if err != nil {
		return "", &TokenError{err}
	}
	margin := min(time.Minute, life/2)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token, t.renew, t.end = token, asked.Add(life-margin), asked.Add(life-margin/2)
	return t.token, nil
}

// exchange sends the refresh token and returns what it is good for.
func (t *Tokens) exchange(ctx context.Context) (token string, life time.Duration, err error) {
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {t.creds.ClientID},
		"client_secret": {t.creds.ClientSecret}, "refresh_token": {t.creds.RefreshToken}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.creds.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := t.client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close() // read to its end
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("%s: %s (%s)", resp.Status, answer.Error, answer.Description)
	case err != nil:
		return "", 0, err
	case answer.AccessToken == "":
		return "", 0, fmt.Errorf("none in the answer of %s", t.creds.TokenURL)
	}
	return answer.AccessToken, time.Duration(answer.ExpiresIn) * time.Second, nil
}

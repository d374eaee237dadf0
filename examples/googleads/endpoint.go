package main

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
)

// remote reports whether calls leave this machine.
func (o *options) remote() bool { return o.endpoint != "" && !loopback(o.endpoint) }

// loopback reports whether an address is this machine's own.
func loopback(endpoint string) bool {
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkEndpoint fills in what depends on where the server is.
func (o *options) checkEndpoint(given map[string]bool, ca string) error {
	if o.endpoint == "" {
		own := adsclient.Credentials{ClientID: fakeads.ClientID, ClientSecret: fakeads.ClientSecret, RefreshToken: fakeads.RefreshToken}
		o.fill(&own, given)
		o.creds, o.plaintext, o.maxCalls = own, true, max(0, o.maxCalls)
		if !given["login-customer-id"] {
			o.login = ""
		}
		o.server.Versions = []string{o.version}
		return nil
	}
	if _, _, err := net.SplitHostPort(o.endpoint); err != nil {
		return fmt.Errorf("-endpoint %s: want host:port", o.endpoint)
	}
	if o.remote() && o.plaintext {
		return errors.New("-plaintext: only for a loopback endpoint, since it shows the credentials to everybody on the way")
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("-ca: %w", err)
		}
		o.ca = pem
	}
	scheme := "https://"
	if !o.remote() && ca == "" {
		o.plaintext, scheme = true, "http://"
	}
	if o.remote() {
		if o.creds.TokenURL == "" {
			o.creds.TokenURL = "https://oauth2.googleapis.com/token"
		}
		if o.maxCalls < 0 {
			o.maxCalls = 50
		}
		if o.accessToken == "" && (o.creds.ClientID == "" || o.creds.ClientSecret == "" || o.creds.RefreshToken == "") {
			return errors.New("no credentials: want -client-id, -client-secret and -refresh-token, or -access-token")
		}
		return nil
	}
	o.maxCalls = max(0, o.maxCalls)
	if o.creds.TokenURL == "" {
		o.creds.TokenURL = scheme + o.endpoint + "/token"
	}
	for p, value := range map[*string]string{&o.creds.ClientID: fakeads.ClientID, &o.creds.ClientSecret: fakeads.ClientSecret, &o.creds.RefreshToken: fakeads.RefreshToken} {
		if *p == "" {
			*p = value
		}
	}
	return nil
}

// fill overwrites credentials with those that were given as flags.
func (o *options) fill(c *adsclient.Credentials, given map[string]bool) {
	if given["client-id"] {
		c.ClientID = o.creds.ClientID
	}
	if given["client-secret"] {
		c.ClientSecret = o.creds.ClientSecret
	}
	if given["refresh-token"] {
		c.RefreshToken = o.creds.RefreshToken
	}
	c.TokenURL = o.creds.TokenURL
}

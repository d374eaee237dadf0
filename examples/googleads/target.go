package main

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
)

// target is the API that the modes call: another server, or a fresh one in this
// process for each mode.
type target struct {
	o    *options
	data *fakeads.Data // of servers in this process
	now  time.Time     // their day, so that all modes report the same one
	page *page         // nil: none is served

	known *fakeads.Totals // what the reports add up to, once computed
}

func newTarget(o *options) (*target, error) {
	t := &target{o: o, now: time.Now()}
	if o.endpoint != "" {
		return t, nil
	}
	var err error
	t.data, err = fakeads.NewData(o.model.Seed, o.model.Accounts)
	return t, err
}

// session is one mode's access to the API.
type session struct {
	server *fakeads.Server // nil: another process
	tokens *adsclient.Tokens
	conns  *adsclient.Conns
	meter  *adsclient.Meter
	served chan error
}

// open starts a server, if need be, gets an access token and connects, so that
// none of this is part of what is measured.
func (t *target) open(ctx context.Context) (s *session, err error) {
	o := t.o
	s = &session{meter: adsclient.NewMeter(o.maxCalls)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	endpoint, creds := o.endpoint, o.creds
	if endpoint == "" {
		cfg := o.server
		cfg.Data, cfg.Now = t.data, func() time.Time { return t.now }
		if s.server, err = fakeads.New(cfg); err != nil {
			return s, err
		}
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.server = nil
			return s, err
		}
		s.served = make(chan error, 1)
		go func() { s.served <- s.server.Serve(lis) }()
		endpoint = lis.Addr().String()
		if creds.TokenURL == "" {
			creds.TokenURL = "http://" + endpoint + "/token"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if s.tokens = adsclient.StaticToken(o.accessToken); o.accessToken == "" {
		if s.tokens, err = adsclient.NewTokens(creds, o.ca); err != nil {
			return s, err
		}
	}
	if s.conns, err = adsclient.Dial(ctx, adsclient.Config{Endpoint: endpoint, Version: o.version, Plaintext: o.plaintext, CA: o.ca,
		Conns: o.conns, Tokens: s.tokens, DeveloperToken: o.developerToken, Meter: s.meter}); err != nil {
		return s, err
	}
	_, err = s.tokens.Token(ctx)
	return s, err
}

// close ends what open began.
func (s *session) close() {
	if s.conns != nil {
		s.conns.Close() // nothing to do about it
	}
	if s.tokens != nil {
		s.tokens.Close()
	}
	if s.server != nil {
		s.server.Close()
		<-s.served
	}
}

// totals returns what all reports add up to, as the data of this process's
// servers have them.
func (t *target) totals(o *options) (fakeads.Totals, error) {
	if t.known == nil {
		sum, err := t.data.Totals(o.query, t.now, t.customers(o))
		if err != nil {
			return sum, err
		}
		t.known = &sum
	}
	return *t.known, nil
}

// customers returns the accounts that are reported.
func (t *target) customers(o *options) []int64 {
	if o.customers == nil {
		return t.data.Customers()
	}
	ids := make([]int64, len(o.customers))
	for i, id := range o.customers {
		ids[i], _ = strconv.ParseInt(id, 10, 64) // checked with the options
	}
	return ids
}

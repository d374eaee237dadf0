// Package adsclient calls the Google Ads API: the real one or one that speaks
// like it.
//
// It knows nothing of governors. A call is one attempt; when it is refused, the
// error says so in the neutral form that package vendors reads, and a Meter has
// counted it. What to do then is for the caller.
package adsclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/flyball-go/flyball/examples/internal/adspb"
)

// Service is a class of methods: what a client is made for, and what a pool
// keeps clients apart by.
type Service string

// The services that the example calls.
const (
	GoogleAds Service = "GoogleAdsService" // reports
	Customers Service = "CustomerService"  // accounts
)

// Config says where the API is and who calls it.
type Config struct {
	Endpoint       string // host:port
	Version        string // v25: part of every method's path
	Plaintext      bool   // without TLS
	CA             []byte // PEM of the roots to trust; nil: the system's
	Conns          int    // shared connections; 0: 1
	Tokens         *Tokens
	DeveloperToken string // sent when it is not empty; Google ignores it
	Meter          *Meter
}

// The limits that Google's own clients set.
const (
	maxMessage  = 64 << 20
	maxMetadata = 16 << 20
)

// Conns are the connections to one endpoint. Any number of goroutines may use
// them at once.
type Conns struct {
	cfg Config
	ccs []*grpc.ClientConn
}

// Dial connects, and waits for the first connection or ctx. Close must be
// called.
func Dial(ctx context.Context, cfg Config) (*Conns, error) {
	creds := insecure.NewCredentials()
	if !cfg.Plaintext {
		roots, err := rootsOf(cfg.CA)
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	}
	c := &Conns{cfg: cfg}
	for range max(1, cfg.Conns) {
		cc, err := grpc.NewClient("passthrough:///"+cfg.Endpoint,
			grpc.WithTransportCredentials(creds),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
			grpc.WithMaxHeaderListSize(maxMetadata),
			grpc.WithDisableServiceConfig(),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 5 * time.Second}))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("adsclient: %w", err), c.Close())
		}
		cc.Connect()
		c.ccs = append(c.ccs, cc)
	}
	cc := c.ccs[0]
	for s := cc.GetState(); s != connectivity.Ready && s != connectivity.TransientFailure; s = cc.GetState() {
		if !cc.WaitForStateChange(ctx, s) {
			return nil, errors.Join(fmt.Errorf("adsclient: no connection to %s: %w", cfg.Endpoint, ctx.Err()), c.Close())
		}
	}
	if cc.GetState() != connectivity.Ready { // a call tells why
		err := cc.Invoke(ctx, "/", &adspb.ListAccessibleCustomersRequest{}, &adspb.ListAccessibleCustomersResponse{})
		return nil, errors.Join(fmt.Errorf("adsclient: no connection to %s: %s", cfg.Endpoint, Describe(err)), c.Close())
	}
	return c, nil
}

// rootsOf returns the roots to trust; nil: the system's.
func rootsOf(ca []byte) (*x509.CertPool, error) {
	if ca == nil {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("adsclient: no certificate in the CA file")
	}
	return roots, nil
}

// Close breaks off all calls.
func (c *Conns) Close() error {
	var errs []error
	for _, cc := range c.ccs {
		errs = append(errs, cc.Close())
	}
	return errors.Join(errs...)
}

// Client returns the i-th client of a service, on one of the connections.
// Clients share connections, so that there is nothing to close.
func (c *Conns) Client(s Service, i int) *Client {
	return &Client{cfg: &c.cfg, cc: c.ccs[i%len(c.ccs)], path: "/google.ads.googleads." + c.cfg.Version + ".services." + string(s) + "/"}
}

// Client calls the methods of one service. Any number of goroutines may use it
// at once.
type Client struct {
	cfg  *Config
	cc   *grpc.ClientConn
	path string // of the service, with a slash at its end
}

// Access is whom a call is about and through whom.
type Access struct {
	Customer string // ten digits; empty for calls that concern no account
	Login    string // the manager that access runs through; empty: none
}

// outgoing adds the metadata that Google's clients send.
func (c *Client) outgoing(ctx context.Context, a Access) (context.Context, error) {
	token, err := c.cfg.Tokens.Token(ctx)
	if err != nil {
		return ctx, err
	}
	kv := []string{"authorization", "Bearer " + token, "x-goog-api-client", agent}
	if a.Customer != "" {
		kv = append(kv, "x-goog-request-params", "customer_id="+a.Customer)
	}
	if a.Login != "" {
		kv = append(kv, "login-customer-id", a.Login)
	}
	if c.cfg.DeveloperToken != "" {
		kv = append(kv, "developer-token", c.cfg.DeveloperToken)
	}
	return metadata.AppendToOutgoingContext(ctx, kv...), nil
}

var agent = "gl-go/" + strings.TrimPrefix(runtime.Version(), "go") + " grpc/" + grpc.Version

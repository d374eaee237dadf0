package fakeads

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// Config says what a server has and how it behaves. Only Data is required.
type Config struct {
	Data         *Data
	Quota        vendortest.Quota // of the project; its zero is vendortest's
	AccountQuota vendortest.Quota // of each account; a zero Rate: none
	DailyOps     int              // operations in 24 hours; 0: without limit
	Latency      time.Duration    // mean time of an accepted call; a call takes half to one and a half of it
	Batch        int              // rows of a batch and of a page; 0: 10,000
	TokenTTL     time.Duration    // life of an access token; 0: 1 h
	FaultRate    float64          // share of calls, and of batches, that break off: 0 to 1
	Versions     []string         // API versions; nil: v25
	Now          func() time.Time // decides which day reports call today; nil: time.Now
}

// Server is one fake Google Ads. Create it with New, then Serve.
type Server struct {
	cfg   Config
	data  *Data
	quota quota
	oauth *oauth
	grpc  *grpc.Server
	http  *http.Server
	rows  atomic.Int64
	ids   atomic.Uint64
}

// Seen is what a server witnessed.
type Seen struct {
	vendortest.Totals
	Rows int64 `json:"rows"` // rows sent, also in answers that broke off
}

var versionForm = regexp.MustCompile(`^v[1-9][0-9]{0,2}$`)

// New returns a server that does not serve yet.
func New(cfg Config) (*Server, error) {
	if cfg.Batch == 0 {
		cfg.Batch = 10_000
	}
	if cfg.TokenTTL == 0 {
		cfg.TokenTTL = time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Versions == nil {
		cfg.Versions = []string{"v25"}
	}
	switch {
	case cfg.Data == nil:
		return nil, errors.New("fakeads: no data")
	case cfg.Batch < 0, cfg.TokenTTL < 0, cfg.Latency < 0, cfg.DailyOps < 0:
		return nil, errors.New("fakeads: batch, token life, latency and daily operations must not be negative")
	case !(cfg.FaultRate >= 0 && cfg.FaultRate <= 1):
		return nil, fmt.Errorf("fakeads: fault rate %v, want 0 to 1", cfg.FaultRate)
	}
	q, err := newQuota(&cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, data: cfg.Data, quota: q, oauth: &oauth{ttl: cfg.TokenTTL, tokens: map[string]time.Time{}}}
	s.grpc = grpc.NewServer(grpc.ForceServerCodecV2(newCodec()), grpc.UnknownServiceHandler(s.unknown), grpc.MaxRecvMsgSize(64<<20))
	seen := map[string]bool{}
	for _, version := range cfg.Versions {
		if !versionForm.MatchString(version) {
			return nil, fmt.Errorf("fakeads: API version %q, want a form like v25", version)
		}
		if seen[version] {
			return nil, fmt.Errorf("fakeads: API version %s twice", version)
		}
		seen[version] = true
		v := &service{s: s, version: version}
		for _, desc := range []grpc.ServiceDesc{adspb.GoogleAdsService_ServiceDesc, adspb.CustomerService_ServiceDesc} {
			desc.ServiceName = strings.Replace(desc.ServiceName, ".v25.", "."+version+".", 1)
			s.grpc.RegisterService(&desc, v)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("POST /token", s.oauth)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return s, nil
}

// Serve answers on lis until Close: gRPC, and on the same address the token
// endpoint, POST /token. It takes over lis, and returns when nothing of the
// server is left.
func (s *Server) Serve(lis net.Listener) error {
	m := newMux(lis)
	var parts sync.WaitGroup
	parts.Go(m.run)
	parts.Go(func() { s.http.Serve(m.plain) }) // its error is that the listener was closed
	err := s.grpc.Serve(m.grpc)
	m.Close()
	parts.Wait()
	if errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

// Close breaks off everything and makes Serve return.
func (s *Server) Close() {
	s.grpc.Stop()
	s.http.Close()
}

// Seen returns what the server witnessed so far.
func (s *Server) Seen() Seen {
	return Seen{s.quota.totals(), s.rows.Load()}
}

// requestID makes an ID of the usual length.
func (s *Server) requestID() string {
	const digits = "0123456789abcdefghijklmnopqrstuv"
	x := mix(s.ids.Add(1))
	id := make([]byte, 22)
	for i := range id {
		id[i] = digits[x&31]
		if x >>= 5; i == 11 {
			x = mix(x + uint64(i))
		}
	}
	return string(id)
}

// fault decides whether a call breaks off here.
func (s *Server) fault(time.Time) *refusal {
	if s.cfg.FaultRate == 0 || rand.Float64() >= s.cfg.FaultRate {
		return nil
	}
	return internalError(codes.Unavailable, adspb.InternalErrorEnum_TRANSIENT_ERROR, "A transient error occurred. Retry the request.")
}

var versionPath = regexp.MustCompile(`^/google\.ads\.googleads\.(v[0-9]+)\.`)

// unknown answers methods of versions that the server does not have.
func (s *Server) unknown(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	v := &service{s: s, version: "v25"}
	r := requestError(adspb.RequestErrorEnum_UNKNOWN, "Unknown method %s.", method)
	r.code = codes.Unimplemented
	if m := versionPath.FindStringSubmatch(method); m != nil {
		v.version = m[1]
		r = requestError(adspb.RequestErrorEnum_UNSUPPORTED_VERSION, "Version %s is not supported.", m[1])
	}
	return v.fail(&call{id: s.requestID()}, r, func(md metadata.MD) { stream.SetTrailer(md) })
}

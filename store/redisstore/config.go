package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Config says where Redis is. Addrs or Client is required, and no more for a server
// on the loopback interface.
type Config struct {
	// Addrs are addresses, host:port or, of a Unix socket, its path: that of one
	// server, those of the sentinels if Master is set, or those of some nodes of
	// the Cluster if Cluster is.
	Addrs []string

	// Master is the name under which sentinels know the primary.
	Master string

	// Cluster says that Addrs are nodes of a Redis Cluster.
	Cluster bool

	// TLS has connections encrypted, and servers authenticated, as it says. nil:
	// they are not encrypted, which is refused for servers that are not on this
	// machine unless AllowInsecure is set.
	TLS *tls.Config

	// AllowInsecure allows plain text connections to other machines. Who can read
	// them sees the password; who can change them decides what is granted.
	AllowInsecure bool

	// Username and Password are those of an ACL user, of the default user if
	// Username is "". Password is called for each new connection, so that it may
	// change; it is given up with the context. nil: there is none.
	Username string
	Password func(context.Context) (string, error)

	// SentinelUsername and SentinelPassword are for the sentinels.
	SentinelUsername, SentinelPassword string

	// Client is used instead of one that is made from what is above. Set its
	// MaxRetries to -1, since requests are repeated with their number by who sends
	// them; its ContextTimeoutEnabled, since a request has to end with its context;
	// not ReadOnly, RouteByLatency or RouteRandomly, since nothing is asked of a
	// replica. It is not closed with the Store. Of a reply that is not to its
	// request, the Store cannot close the connection.
	Client redis.UniversalClient

	// TTL is how long a node that is silent keeps its slots and its probe: 1 s up to
	// 1 h. 0 means 10 s. It should be the same in all processes.
	TTL time.Duration

	// SplitBrainBound is for how long a primary that was replaced may go on to
	// answer, up to 1 h: after a failover nothing is granted for so long. On a
	// Cluster that is its cluster-node-timeout, with sentinels the primary's
	// min-replicas-max-lag, if its min-replicas-to-write is 1 or more: if it is 0,
	// there is no bound. 0 means 15 s on a Cluster, 10 s with sentinels, the
	// defaults of the servers, and otherwise none. Negative: none. It should be the
	// same in all processes.
	SplitBrainBound time.Duration

	// Logger gets a record, once, when a primary that sentinels watch, or a Client's that
	// has replicas, is found to have no min-replicas-to-write, so that SplitBrainBound
	// bounds nothing. nil means slog.Default().
	Logger *slog.Logger
}

// String names the servers, and no secret.
func (cfg Config) String() string {
	var kind string
	switch {
	case cfg.Client != nil:
		return "redis (client of its own)"
	case cfg.Master != "":
		kind = "primary " + cfg.Master + " of sentinels"
	case cfg.Cluster:
		kind = "cluster"
	default:
		kind = "server"
	}
	return "redis " + kind + " " + strings.Join(cfg.Addrs, ",")
}

// GoString is String.
func (cfg Config) GoString() string { return cfg.String() }

// fill checks cfg and writes its defaults out.
func (cfg *Config) fill() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("redisstore: Config.%s is %v, want %s", field, value, want)
	}
	_, cluster := cfg.Client.(*redis.ClusterClient)
	cfg.Cluster = cfg.Cluster || cluster
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.TTL == 0 {
		cfg.TTL = 10 * time.Second
	}
	if cfg.SplitBrainBound == 0 && cfg.Cluster {
		cfg.SplitBrainBound = 15 * time.Second
	} else if cfg.SplitBrainBound == 0 && cfg.Master != "" {
		cfg.SplitBrainBound = 10 * time.Second
	}
	switch {
	case cfg.Client == nil && len(cfg.Addrs) == 0:
		return bad("Addrs", "empty", "an address, or Client")
	case cfg.Client != nil && (len(cfg.Addrs) > 0 || cfg.Master != "" || cfg.TLS != nil || cfg.Username != "" || cfg.Password != nil):
		return bad("Client", "set", "nothing else that says where Redis is")
	case cfg.Cluster && cfg.Master != "":
		return bad("Master", cfg.Master, "none on a Cluster")
	case cfg.Client == nil && !cfg.Cluster && cfg.Master == "" && len(cfg.Addrs) > 1:
		return bad("Addrs", cfg.Addrs, "one, or Master or Cluster")
	case cfg.TTL < time.Second || cfg.TTL > time.Hour:
		return bad("TTL", cfg.TTL, "1s up to 1h")
	case cfg.SplitBrainBound > time.Hour:
		return bad("SplitBrainBound", cfg.SplitBrainBound, "up to 1h")
	case cfg.TLS != nil && cfg.TLS.InsecureSkipVerify && cfg.TLS.VerifyPeerCertificate == nil && cfg.TLS.VerifyConnection == nil && !cfg.AllowInsecure:
		return bad("TLS.InsecureSkipVerify", true, "false, or AllowInsecure")
	}
	cfg.SplitBrainBound = max(0, cfg.SplitBrainBound)
	for _, addr := range cfg.Addrs {
		if err := cfg.safe(addr); err != nil {
			return err
		}
	}
	return nil
}

// safe returns an error if addr must not be spoken to.
func (cfg *Config) safe(addr string) error {
	if cfg.TLS != nil || cfg.AllowInsecure || strings.HasPrefix(addr, "/") {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("redisstore: Config.Addrs has %q, want host:port or the path of a socket", addr)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("redisstore: %s is on another machine: Config.TLS is nil, want one, or AllowInsecure", addr)
}

// connect returns a client by cfg, which opens its connections by dial.
func (cfg *Config) connect(dial func(ctx context.Context, network, addr string) (net.Conn, error)) redis.UniversalClient {
	var credentials func(ctx context.Context) (string, string, error)
	if cfg.Password != nil {
		credentials = func(ctx context.Context) (string, string, error) {
			password, err := cfg.Password(ctx)
			return cfg.Username, password, err
		}
	}
	// RESP2, since 3 would let the server send what nobody asked for. Nothing is
	// repeated by the client: that is up to who numbers the requests. What goes together
	// takes the connections of what goes alone, so that fewer can be dead at once.
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case cfg.Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cfg.Addrs, Dialer: dial, CredentialsProviderContext: credentials, Username: cfg.Username,
			Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
			DisableIdentity: true, MaintNotificationsConfig: quiet,
		})
	case cfg.Master != "":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: cfg.Master, SentinelAddrs: cfg.Addrs, SentinelUsername: cfg.SentinelUsername, SentinelPassword: cfg.SentinelPassword,
			Dialer: dial, CredentialsProviderContext: credentials, Username: cfg.Username,
			Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1, DisableIdentity: true, PipelinePoolSize: -1,
		})
	}
	return redis.NewClient(&redis.Options{
		Addr: cfg.Addrs[0], Dialer: dial, CredentialsProviderContext: credentials, Username: cfg.Username,
		Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		DisableIdentity: true, MaintNotificationsConfig: quiet, PipelinePoolSize: -1,
	})
}

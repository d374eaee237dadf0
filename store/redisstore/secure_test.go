package redisstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// documentedACL is the rules that the package's documentation names.
func documentedACL(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^//\tuser flyball (on .*)$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("doc.go has no ACL rule")
	}
	var rules []string
	for _, r := range strings.Fields(string(m[1])) {
		if !strings.HasPrefix(r, ">") {
			rules = append(rules, r)
		}
	}
	return rules
}

// user makes the documented user, and no other, and returns how to be it.
func user(t *testing.T, r *servers.RedisServer, cfg Config) Config {
	t.Helper()
	r.Must(append([]string{"ACL", "SETUSER", "flyball", ">secret1"}, documentedACL(t)...)...)
	cfg.Username = "flyball"
	cfg.Password = func(context.Context) (string, error) { return "secret1", nil }
	return cfg
}

// Without a command of the list something is refused: none is there for nothing.
func TestEveryDocumentedRuleIsNeeded(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t)
	rules := documentedACL(t)
	for i, rule := range rules {
		if rule == "on" || rule == "+ping" { // which a subscription sends that has been silent
			continue
		}
		r.Must("SCRIPT", "FLUSH")
		without := append(append([]string(nil), rules[:i]...), rules[i+1:]...)
		r.Must("ACL", "LOG", "RESET")
		r.Must(append([]string{"ACL", "SETUSER", "flyball", "reset", ">secret1"}, without...)...)
		s := open(t, user0(Config{Addrs: []string{r.Addr}}))
		everything(s, 300*time.Millisecond)
		s.Close()
		if r.Must("ACL", "LOG") == "" {
			t.Errorf("%s is not needed", rule)
		}
	}
	r.Must(append([]string{"ACL", "SETUSER", "flyball", "reset", ">secret1"}, rules...)...)
	r.Must("ACL", "LOG", "RESET")
	if err := everything(open(t, user0(Config{Addrs: []string{r.Addr}})), time.Minute); err != nil {
		t.Error(err)
	}
	if log := r.Must("ACL", "LOG"); log != "" {
		t.Errorf("refused: %.2000s", log)
	}
}

func user0(cfg Config) Config {
	cfg.Username = "flyball"
	cfg.Password = func(context.Context) (string, error) { return "secret1", nil }
	return cfg
}

// everything uses s in all ways that there are, and waits for a hint.
func everything(s *Store, patience time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	note := func(e error) { err = errors.Join(err, e) }
	note(s.AssumeUnused(ctx))
	heard := make(chan bool, 10)
	stop, e := s.Watch(ctx, func(store.Hint) {
		select {
		case heard <- true:
		default:
		}
	})
	note(e)
	key, n := store.KeyFor(string(store.NewNode())), store.NewNode()
	for i, it := range []store.Item{
		{Limits: []store.Limit{hourly(5)}, Version: 1, Want: 1}, {Cool: []store.Cool{{For: time.Minute}}}, {Bye: true},
	} {
		it.Key, it.Seq = key, uint64(i+1)
		_, e := s.Exchange(ctx, n, []store.Item{it})
		note(e)
	}
	if stop != nil {
		select {
		case <-heard:
		case <-time.After(patience):
			note(errors.New("no hint"))
		}
		time.Sleep(10 * time.Millisecond)
		stop()
	}
	rs, e := s.Meta(ctx, store.MetaOp{Do: store.Put, Key: key, Value: []byte("1")})
	note(e)
	_, e = s.Meta(ctx, store.MetaOp{Do: store.Get, Key: key})
	note(e)
	_, e = s.Meta(ctx, store.MetaOp{Do: store.List, Key: key})
	note(e)
	if len(rs) == 1 {
		_, e = s.Meta(ctx, store.MetaOp{Do: store.Delete, Key: key, Version: rs[0].Version})
		note(e)
	}
	return err
}

func TestAPasswordMayChange(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t)
	rules := documentedACL(t)
	r.Must(append([]string{"ACL", "SETUSER", "flyball", ">secret1"}, rules...)...)
	var password atomic.Value
	password.Store("secret1")
	s := open(t, Config{Addrs: []string{r.Addr}, Username: "flyball", Password: func(context.Context) (string, error) { return password.Load().(string), nil }})
	a := newAsker(t, s, "k", hourly(10))
	a.ask(0)
	r.Must("ACL", "SETUSER", "flyball", "<secret1", ">secret2")
	r.Must("CLIENT", "KILL", "USER", "flyball")
	if _, err := a.sendOne(0); err == nil || strings.Contains(err.Error()+fmt.Sprintf("%+v %#v %v", s.cfg, s.cfg, s), "secret") {
		t.Errorf("by an old password: %v", err)
	}
	password.Store("secret2")
	if _, err := a.sendOne(0); err != nil {
		t.Errorf("by the new password: %v", err)
	}
}

// certificate makes a certificate for 127.0.0.1 and returns who trusts it.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, b := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	return certFile, keyFile, roots
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, roots := certificate(t)
	port := servers.Port(t)
	servers.Redis(t, "--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	addr := servers.Address(port)
	if err := everything(open(t, Config{Addrs: []string{addr}, TLS: &tls.Config{RootCAs: roots}}), time.Minute); err != nil {
		t.Error(err)
	}
	for name, cfg := range map[string]Config{
		"a certificate that nobody vouches for": {TLS: &tls.Config{}},
		"plain text":                            {},
	} {
		cfg.Addrs = []string{addr}
		if _, err := newAsker(t, open(t, cfg), "k", hourly(10)).sendOne(1); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestPlainTextStaysOnThisMachine(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:6379": "", "localhost:6379": "", "[::1]:6379": "", "/run/redis.sock": "",
		"192.0.2.1:6379": "on another machine", "redis.example.com:6379": "on another machine", "redis": "host:port",
	} {
		_, err := New(Config{Addrs: []string{addr}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", addr, err, want)
		}
		if s, err := New(Config{Addrs: []string{addr}, AllowInsecure: true}); err != nil {
			t.Errorf("%s, which is allowed: %v", addr, err)
		} else {
			s.Close()
		}
	}
	s := open(t, Config{Addrs: []string{"127.0.0.1:6379"}, Cluster: true})
	if _, err := s.conns.dial(t.Context(), "tcp", "192.0.2.1:6379"); err == nil || !strings.Contains(err.Error(), "another machine") {
		t.Errorf("an address that the servers name: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	local := []string{"127.0.0.1:1"}
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "Config.Addrs is empty"},
		{Config{Addrs: local, Client: client}, "Config.Client"},
		{Config{Addrs: local, Master: "m", Cluster: true}, "Config.Master is m"},
		{Config{Addrs: append(local, "127.0.0.1:2")}, "Config.Addrs is [127.0.0.1:1 127.0.0.1:2]"},
		{Config{Addrs: local, TTL: time.Millisecond}, "Config.TTL is 1ms, want 1s up to 1h"},
		{Config{Addrs: local, TTL: 2 * time.Hour}, "Config.TTL is 2h0m0s"},
		{Config{Addrs: local, SplitBrainBound: 2 * time.Hour}, "Config.SplitBrainBound is 2h0m0s"},
		{Config{Addrs: local, TLS: &tls.Config{InsecureSkipVerify: true}}, "Config.TLS.InsecureSkipVerify"},
	} {
		if _, err := New(tc.cfg); err == nil || !strings.Contains(err.Error(), "redisstore: "+tc.want) {
			t.Errorf("%v: %v, want %q", tc.cfg, err, tc.want)
		}
	}
	for _, tc := range []struct {
		cfg        Config
		ttl, bound time.Duration
	}{
		{Config{Addrs: local}, 10 * time.Second, 0},
		{Config{Addrs: local, Cluster: true}, 10 * time.Second, 15 * time.Second},
		{Config{Addrs: local, Master: "m"}, 10 * time.Second, 10 * time.Second},
		{Config{Addrs: local, Master: "m", SplitBrainBound: -1}, 10 * time.Second, 0},
		{Config{Client: client, TTL: time.Minute}, time.Minute, 0},
	} {
		s, err := New(tc.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if s.TTL() != tc.ttl || s.bound != tc.bound {
			t.Errorf("%v: TTL %v, bound %v", tc.cfg, s.TTL(), s.bound)
		}
		s.Close()
	}
	if client.Options().PoolSize == 0 {
		t.Error("unreachable")
	}
}

// A client of the user's own stays open.
func TestAClientOfTheUsersOwn(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	s := open(t, Config{Client: client})
	if err := everything(s, time.Minute); err != nil {
		t.Error(err)
	}
	s.Close()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Close of the Store: %v", err)
	}
}

package mysqlstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

func TestOpenRefusesSettings(t *testing.T) {
	const dsn = "u:hunter2@tcp(127.0.0.1:1)/db"
	db := new(sql.DB)
	for want, cfg := range map[string]mysqlstore.Config{
		"want one of them":                    {},
		"or neither":                          {DSN: dsn, DB: db},
		"TLS or Password, which are for DSN":  {DB: db, TLS: &tls.Config{}},
		"Config.TTL is 1ms":                   {DSN: dsn, TTL: time.Millisecond},
		"Config.Poll is 1ms":                  {DSN: dsn, Poll: time.Millisecond},
		"Config.Sessions is -1":               {DSN: dsn, Sessions: -1},
		"Config.MaxKeys is -1":                {DSN: dsn, MaxKeys: -1},
		"Config.MaxNodes is 1025":             {DSN: dsn, MaxNodes: 1025},
		`prefix of the tables is "gov;--"`:    {DSN: dsn, Prefix: "gov;--"},
		`is "GOV_"`:                           {DSN: dsn, Prefix: "GOV_"},
		`is "abcdefghijklmnopq"`:              {DSN: dsn, Prefix: "abcdefghijklmnopq"},
		"Config.DSN is none":                  {DSN: "u:hunter2@db"},
		"DSN is none, want":                   {DSN: "u:hunter2@tcp(127.0.0.1:1)/db?parseTime=hunter2"},
		"names no database":                   {DSN: "u:hunter2@tcp(127.0.0.1:1)/"},
		"multiStatements":                     {DSN: dsn + "?multiStatements=true"},
		"allowAllFiles":                       {DSN: dsn + "?allowAllFiles=true"},
		"10.0.0.1:3306 is another machine":    {DSN: "u:hunter2@tcp(10.0.0.1)/db"},
		"db:3306 is another machine":          {DSN: "u:hunter2@tcp(db)/db?tls=preferred"},
		"db:1 is another machine":             {DSN: "u:hunter2@tcp(db:1)/db?tls=skip-verify"},
		"db:2 is another machine":             {DSN: "u:hunter2@tcp(db:2)/db?tls=true&allowFallbackToPlaintext=true"},
		"db:4 is another machine":             {DSN: "u:hunter2@tcp(db:4)/db", TLS: &tls.Config{InsecureSkipVerify: true}},
		"localhost.evil:1 is another machine": {DSN: "u:hunter2@tcp(localhost.evil:1)/db"},
	} {
		_, err := mysqlstore.Open(t.Context(), cfg)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
	// What is allowed fails later, as there is nobody.
	for _, cfg := range []mysqlstore.Config{{DSN: dsn}, {DSN: "u:hunter2@unix(/nowhere)/db"}, {DSN: "u:hunter2@tcp([::1]:1)/db"}} {
		_, err := mysqlstore.Open(t.Context(), cfg)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "machine")
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	for _, dsn := range []string{"user:hunter2@tcp(db:3306)/app?tls=true", "user:hunter2@tcp(db:3306/app", "user:hunter2@/app?x=hunter2"} {
		cfg := mysqlstore.Config{DSN: dsn}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			require.NotContains(t, fmt.Sprintf(verb, cfg), "hunter2", verb)
		}
	}
	require.Equal(t, `mysqlstore{user@tcp(db:3306)/app, prefix ""}`, mysqlstore.Config{DSN: "user:hunter2@tcp(db:3306)/app"}.String())
	m := shared(t)
	dsn, db := database(t, m)
	_, err := db.Exec("CREATE OR REPLACE USER u@127.0.0.1 IDENTIFIED BY 'hunter2'")
	require.NoError(t, err)
	user := strings.Replace(dsn, "root@", "u:wrong-hunter2@", 1)
	_, err = mysqlstore.Open(t.Context(), mysqlstore.Config{DSN: user})
	require.ErrorContains(t, err, "Access denied")
	require.NotContains(t, err.Error(), "hunter2")
}

// A user may do what Open needs, and no more; its password is asked for.
func TestAUserWithFewRightsAndAPasswordThatChanges(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	name := dsn[strings.Index(dsn, "/")+1:]
	for _, q := range []string{
		"CREATE OR REPLACE USER u@127.0.0.1 IDENTIFIED BY 'one'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON " + name + ".gov_state TO u@127.0.0.1",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON " + name + ".gov_meta TO u@127.0.0.1",
		"GRANT SELECT, UPDATE ON " + name + ".gov_seq TO u@127.0.0.1",
		"GRANT SELECT ON " + name + ".gov_schema TO u@127.0.0.1",
	} {
		_, err := db.Exec(q)
		require.NoError(t, err)
	}
	password := make(chan string, 1)
	password <- "one"
	s := open(t, mysqlstore.Config{DSN: strings.Replace(dsn, "root@", "u:none@", 1), Sessions: 2, Poll: time.Second,
		Password: func(context.Context) (string, error) {
			p := <-password
			password <- p
			return p, nil
		}})
	c := newClient(s)
	require.EqualValues(t, 5, c.take(t, "k", 5, forever(50)))
	_, err := s.Meta(t.Context(), store.MetaOp{Do: store.Put, Key: "k", Value: []byte("1")})
	require.NoError(t, err)
	_, err = db.Exec("ALTER USER u@127.0.0.1 IDENTIFIED BY 'two'")
	require.NoError(t, err)
	_, err = db.Exec("SELECT GROUP_CONCAT(CONCAT('KILL ', id)) FROM information_schema.PROCESSLIST")
	require.NoError(t, err)
	<-password
	password <- "two"
	crash(m)
	require.EqualValues(t, 5, c.take(t, "k", 5, forever(50)))
	_, err = mysqlstore.Open(t.Context(), mysqlstore.Config{DSN: dsn, Password: func(context.Context) (string, error) { return "", errors.New("no key") }})
	require.ErrorContains(t, err, "no key")
}

// certificate writes a certificate for 127.0.0.1, signed by itself, where the server
// finds it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return pool
}

func TestTLSIsVerified(t *testing.T) {
	dir := t.TempDir()
	pool := certificate(t, dir)
	m := servers.StartMariaDB(t, "--ssl-cert="+filepath.Join(dir, "cert.pem"), "--ssl-key="+filepath.Join(dir, "key.pem"), "--require-secure-transport=ON")
	name := "tls"
	root, err := sql.Open("mysql", strings.Replace(m.DSN(""), "tcp("+servers.Address(m.Port)+")", "unix("+m.Socket+")", 1))
	require.NoError(t, err)
	defer root.Close()
	_, err = root.Exec("CREATE DATABASE " + name)
	require.NoError(t, err)
	s := open(t, mysqlstore.Config{DSN: m.DSN(name), TLS: &tls.Config{RootCAs: pool}, AutoMigrate: true})
	require.EqualValues(t, 5, newClient(s).take(t, "k", 5, forever(50)))
	// Another certificate than that which is trusted, another name, none at all.
	for _, cfg := range []mysqlstore.Config{
		{DSN: m.DSN(name), TLS: &tls.Config{RootCAs: x509.NewCertPool()}},
		{DSN: m.DSN(name), TLS: &tls.Config{RootCAs: pool, ServerName: "another"}},
		{DSN: m.DSN(name) + "?tls=true"},
		{DSN: m.DSN(name)},
	} {
		_, err := mysqlstore.Open(t.Context(), cfg)
		require.Error(t, err)
	}
}

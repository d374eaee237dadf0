package fakeads

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"slices"
	"time"
)

// TLS puts TLS on a listener, with a certificate made for its address and good
// for a day. ca is a file with the root to trust, which the caller removes.
func TLS(lis net.Listener) (secured net.Listener, ca string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	now := time.Now()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "flyball adsserver"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if addr, ok := lis.Addr().(*net.TCPAddr); ok && !addr.IP.IsUnspecified() {
		cert.IPAddresses = append(cert.IPAddresses, addr.IP)
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		return nil, "", err
	}
	f, err := os.CreateTemp("", "flyball-adsserver-*.pem")
	if err != nil {
		return nil, "", err
	}
	err = pem.Encode(f, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, "", err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
	}
	// HTTP/2 is gRPC here. Clients that speak more than that, such as those that
	// ask for access tokens, get HTTP/1.
	plain := config.Clone()
	plain.NextProtos = []string{"http/1.1"}
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, "http/1.1") {
			return plain, nil
		}
		return nil, nil
	}
	return tls.NewListener(lis, config), f.Name(), nil
}

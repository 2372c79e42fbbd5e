package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, pool := selfSigned(t)
	_, strangers := selfSigned(t)
	theirs := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	trusting := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	for name, test := range map[string]struct {
		theirs, ours *tls.Config
		want         string
	}{
		"both":        {theirs, trusting, ""},
		"only there":  {theirs, nil, "it has TLS and none was asked for here"},
		"only here":   {nil, trusting, "it has no TLS though it was asked for"},
		"not trusted": {theirs, &tls.Config{RootCAs: strangers}, "its issuer among those that are trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *Options) { o.TLS = test.theirs })
			c, err := Dial(t.Context(), s.Addr().String(), options(func(o *DialOptions) { o.TLS = test.ours }))
			if test.want != "" {
				wants(t, err, test.want)
				eventually(t, "counting it", func() bool { return s.Stats().WrongTLS == 1 })
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			trial, err := c.Run(t.Context(), short(probe.TCPBandwidth))
			if err != nil || trial.Incomplete != "" || trial.Far.ReceivedBytes == 0 {
				t.Errorf("%v, %+v", err, trial)
			}
		})
	}
}

// Somebody in between, whom the client's TLS trusts, passes on all of the handshake: what
// was proved on one TLS connection must be worth nothing on another.
func TestProofsAreBoundToTLS(t *testing.T) {
	t.Parallel()
	certificate, pool := selfSigned(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	s := serve(t, func(o *Options) { o.TLS = config })
	between := fake(t, func(conn net.Conn) {
		other, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			return
		}
		defer other.Close()
		hello, _ := readHello(conn)
		_, _ = other.Write(hello)
		answer, _ := readHello(other)
		_, _ = conn.Write(answer)
		left, right := tls.Server(conn, config), tls.Client(other, &tls.Config{InsecureSkipVerify: true})
		go func() { _, _ = io.Copy(right, left) }()
		_, _ = io.Copy(left, right)
	})
	_, err := Dial(t.Context(), between, options(func(o *DialOptions) { o.TLS = &tls.Config{RootCAs: pool} }))
	wants(t, err, "the token is not the one")
	eventually(t, "counting it", func() bool { return s.Stats().WrongToken == 1 })
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an agent"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

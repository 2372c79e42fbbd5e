package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is the folder with the keys and certificates of a cluster.
type pki struct{ dir string }

// Files in the folder, without .crt and .key.
const (
	servingCA  = "ca"              // signs what the API server serves with
	serving    = "apiserver"       // for 127.0.0.1
	proxyCA    = "front-proxy-ca"  // signs who may speak for a user
	frontProxy = "front-proxy"     // the aggregation layer, to metrics-server
	accountKey = "service-account" // a key only: signs and verifies tokens
)

func (p pki) cert(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p pki) key(name string) string  { return filepath.Join(p.dir, name+".key") }

// makePKI creates the folder and everything in it.
func makePKI(dir string) (pki, error) {
	p := pki{dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return p, fmt.Errorf("making a folder for certificates: %w", err)
	}
	if _, err := p.newKey(accountKey); err != nil {
		return p, err
	}
	for _, pair := range []struct{ ca, leaf string }{{servingCA, serving}, {proxyCA, frontProxy}} {
		ca := &x509.Certificate{
			Subject:               pkix.Name{CommonName: pair.ca},
			IsCA:                  true,
			BasicConstraintsValid: true,
			KeyUsage:              x509.KeyUsageCertSign,
		}
		caKey, err := p.issue(pair.ca, ca, nil, nil)
		if err != nil {
			return p, err
		}
		leaf := &x509.Certificate{
			Subject:     pkix.Name{CommonName: pair.leaf},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if _, err := p.issue(pair.leaf, leaf, ca, caKey); err != nil {
			return p, err
		}
	}
	return p, nil
}

// issue makes a key and writes it and its certificate, signed by a CA or, without
// one, by itself.
func (p pki) issue(name string, template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	key, err := p.newKey(name)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	return key, writePEM(p.cert(name), "CERTIFICATE", der)
}

func (p pki) newKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", name, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", name, err)
	}
	return key, writePEM(p.key(name), "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("writing a key or certificate: %w", err)
	}
	return nil
}

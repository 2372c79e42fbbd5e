package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

var errNotYet = errors.New("not yet")

func TestEventually(t *testing.T) {
	asked := 0
	third := func(context.Context) error {
		if asked++; asked < 3 {
			return errNotYet
		}
		return nil
	}
	if err := Eventually(t.Context(), time.Minute, "the third", third); err != nil || asked != 3 {
		t.Errorf("after %d questions: %v", asked, err)
	}

	never := func(context.Context) error { return errNotYet }
	err := Eventually(t.Context(), 50*time.Millisecond, "the end", never)
	if want := "the end: not within 50ms: not yet"; err == nil || err.Error() != want || !errors.Is(err, errNotYet) {
		t.Errorf("got %v, want %s", err, want)
	}

	final := func(context.Context) error { return fmt.Errorf("wrapped: %w", Final(errNotYet)) }
	if err := Eventually(t.Context(), time.Minute, "the end", final); !errors.Is(err, errNotYet) {
		t.Errorf("a final answer: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Eventually(ctx, time.Minute, "the end", never); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want string // kind and name of each, or a part of the error
	}{
		"documents":  {"{apiVersion: v1, kind: A, metadata: {name: a}}\n---\n# nothing\n---\n{apiVersion: v1, kind: B, metadata: {name: b, namespace: ns}}\n", "A /a, B ns/b"},
		"list":       {"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A, metadata: {name: a}}]}", "A /a"},
		"nothing":    {"", ""},
		"no kind":    {"{apiVersion: v1, kind: A, metadata: {name: a}}\n---\n{metadata: {name: a}}", "document 2: apiVersion and kind"},
		"not YAML":   {"a: b: c", "document 1"},
		"not a list": {"- a", "document 1"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := parse([]byte(test.text))
			if err != nil {
				if test.want == "" || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
				return
			}
			got := make([]string, len(objects))
			for i, o := range objects {
				got[i] = describe(o)
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

func TestUsersGetTokensAndKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	a := access{url: "https://127.0.0.1:1", caFile: "/ca.crt", dir: dir}
	file := filepath.Join(dir, "tokens")
	if err := a.grant(allUsers([]User{{Name: "eve", Groups: []string{"a", "b"}}}), file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for i, want := range []string{Admin + " system:masters", Operator + " system:serviceaccounts,system:serviceaccounts:taper-system", "eve a,b"} {
		token, user := rows[i][0], rows[i][1]
		if got := user + " " + rows[i][3]; got != want || len(token) < 16 || seen[token] {
			t.Errorf("row %d is %v, want %s with a token of its own", i, rows[i], want)
		}
		seen[token] = true
		path, err := a.kubeconfig(user)
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.LoadFromFile(path)
		if err != nil || config.AuthInfos[user].Token != token || config.Clusters["cluster"].Server != a.url {
			t.Errorf("kubeconfig of %s: %v, %v", user, config, err)
		}
	}
	if _, err := a.kubeconfig("mallory"); err == nil || !strings.Contains(err.Error(), "mallory") {
		t.Errorf("an unknown user: %v", err)
	}
	if err := a.grant([]User{{Name: "eve"}, {Name: "eve"}}, file); err == nil {
		t.Error("one name twice is accepted")
	}
}

func TestCertificates(t *testing.T) {
	p, err := makePKI(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	for leaf, ca := range map[string]string{serving: servingCA, frontProxy: proxyCA} {
		pair, err := tls.LoadX509KeyPair(p.cert(leaf), p.key(leaf))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(p.cert(ca))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			t.Fatalf("%s has no certificate", p.cert(ca))
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
			t.Errorf("%s by %s: %v", leaf, ca, err)
		}
	}
}

func TestPortsDiffer(t *testing.T) {
	seen := make(map[int]bool)
	for range 20 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < firstPort || port >= lastPort {
			t.Errorf("port %d", port)
		}
		seen[port] = true
	}
}

func TestSidecarsDiffer(t *testing.T) {
	e := Envoys{Namespace: "demo"}
	if got, want := e.node("client", 0).Id, "sidecar~10.9.240.1~client-0.demo~demo.svc.cluster.local"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	seen := make(map[string]bool)
	for n := range 600 {
		address := strings.Split(e.node("client", n).Id, "~")[1]
		if seen[address] {
			t.Errorf("client %d has the address %s of another", n, address)
		}
		seen[address] = true
	}
}

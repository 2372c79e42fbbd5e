package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

// probeTimeout bounds one question of whether a server is ready.
const probeTimeout = 5 * time.Second

// probe asks a URL and wants status 200.
func probe(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		why, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
		if err != nil {
			return err
		}
		return fmt.Errorf("%s: status %s: %s", url, resp.Status, why)
	}
}

// startEtcd returns the URL of an etcd that does not wait for the disk.
func (c *Cluster) startEtcd(ctx context.Context) (url string, err error) {
	clients, err := freePort()
	if err != nil {
		return "", err
	}
	peers, err := freePort()
	if err != nil {
		return "", err
	}
	url, peer := "http://"+loopback(clients), "http://"+loopback(peers)
	c.Etcd = &Server{
		name: "etcd",
		path: "etcd",
		args: []string{
			"--data-dir=etcd",
			"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=default=" + peer,
			"--unsafe-no-fsync",
			"--logger=zap", "--log-level=warn",
		},
		probe: probe(http.DefaultClient, url+"/health"),
	}
	return url, c.run(ctx, c.Etcd)
}

// startAPIServer runs an API server with RBAC, tokens and an aggregation layer.
func (c *Cluster) startAPIServer(ctx context.Context, etcdURL string, users []User) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	if c.pki, err = makePKI(filepath.Join(c.dir, "pki")); err != nil {
		return err
	}
	c.access = access{url: "https://" + loopback(port), caFile: c.pki.cert(servingCA), dir: c.dir}
	tokens := filepath.Join(c.dir, "tokens.csv")
	if err := c.access.grant(users, tokens); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.REST())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	c.APIServer = &Server{
		name:  "kube-apiserver",
		path:  "kube-apiserver",
		args:  c.apiServerArgs(etcdURL, tokens, port),
		probe: probe(client, c.access.url+"/readyz"),
	}
	return c.run(ctx, c.APIServer)
}

func (c *Cluster) apiServerArgs(etcdURL, tokens string, port int) []string {
	return []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.pki.cert(serving), "--tls-private-key-file=" + c.pki.key(serving),
		"--service-cluster-ip-range=10.96.0.0/16,fd96::/108",
		// Nobody asks for the service kubernetes, and loopback would be refused there.
		"--advertise-address=10.9.0.1", "--endpoint-reconciler-type=none",

		"--authorization-mode=RBAC",
		"--token-auth-file=" + tokens,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.pki.key(accountKey),
		"--service-account-signing-key-file=" + c.pki.key(accountKey),
		// It waits for accounts that only a controller manager makes.
		"--disable-admission-plugins=ServiceAccount",

		"--enable-aggregator-routing", // to endpoints: there is no kube-proxy
		"--requestheader-client-ca-file=" + c.pki.cert(proxyCA),
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki.cert(frontProxy),
		"--proxy-client-key-file=" + c.pki.key(frontProxy),
	}
}

package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/internal/lab/process"
)

// lookupHint is what to do about an executable that is missing.
const lookupHint = `run "tools/fetch.sh etcd cluster envoy", and put .tools/bin first in PATH`

// quiet is for clients: controller-runtime complains when nobody sets its global
// logger, which is left to the program under test.
var quiet = logr.FromSlogHandler(slog.DiscardHandler)

// Config says what to start.
type Config struct {
	// Dir is an existing folder for data and logs, used by nobody else and left as it
	// is by Close; a temporary one, which Close removes, when empty.
	Dir string
	// Users are known to the API server besides Admin and Operator.
	Users []User
}

// Cluster is a running API server with its store, and what was started beside it.
type Cluster struct {
	Etcd      *Server
	APIServer *Server

	dir     string
	ownDir  bool
	pki     pki
	access  access
	client  client.WithWatch
	mu      sync.Mutex
	closers []func()       // in the order that things were started
	checks  []func() error // of what was started
	istiods int
}

// Start runs etcd and kube-apiserver, and returns when they are ready, in some 4
// seconds. The context is that of the start only; Close ends the cluster.
func Start(ctx context.Context, config Config) (_ *Cluster, err error) {
	c := &Cluster{dir: config.Dir}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "taper-cluster-"); err != nil {
			return nil, fmt.Errorf("making a folder for a cluster: %w", err)
		}
		c.ownDir = true
	}
	etcdURL, err := c.startEtcd(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.startAPIServer(ctx, etcdURL, allUsers(config.Users)); err != nil {
		return nil, err
	}
	if c.client, err = client.NewWithWatch(c.REST(), client.Options{Scheme: Scheme(), Log: quiet}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return c, nil
}

// Close ends everything that the cluster has started. It may be called more than
// once.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range slices.Backward(c.closers) {
		f()
	}
	if c.ownDir {
		os.RemoveAll(c.dir)
	}
}

// Err says which part has ended by itself, and why; nil while all is well.
func (c *Cluster) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, check := range c.checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// Client may do everything. It knows the types in [Scheme], reads without a cache
// and has no limit on how often.
func (c *Cluster) Client() client.WithWatch { return c.client }

// REST is how Admin talks to the API server, without a limit on how often.
func (c *Cluster) REST() *rest.Config {
	config, err := c.RESTFor(Admin)
	if err != nil {
		panic(err) // Admin is always known
	}
	return config
}

// RESTFor is how a user talks to the API server.
func (c *Cluster) RESTFor(user string) (*rest.Config, error) { return c.access.rest(user) }

// KubeconfigFor writes a kubeconfig for a user and returns its path.
func (c *Cluster) KubeconfigFor(user string) (string, error) { return c.access.kubeconfig(user) }

// Dir is the folder with the logs of everything that was started.
func (c *Cluster) Dir() string { return c.dir }

// run starts a server that Close will end.
func (c *Cluster) run(ctx context.Context, s *Server) (err error) {
	if s.path, err = process.Lookup(s.path, lookupHint); err != nil {
		return err
	}
	s.dir = c.dir
	if err := s.Start(ctx); err != nil {
		return err
	}
	c.watch(s.Err, s.Kill) // killed, since its data is of no use to anybody
	return nil
}

// watch leaves what was started to Err and Close.
func (c *Cluster) watch(check func() error, end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks = append(c.checks, check)
	c.closers = append(c.closers, end)
}

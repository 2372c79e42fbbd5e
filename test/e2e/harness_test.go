//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/lab/proxy"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// withinDefault is how long a change may take to get through istiod to an Envoy:
// far above the fraction of a second that it takes on an idle machine.
const withinDefault = 30 * time.Second

// startCluster runs an API server with taper's and Istio's types, for this test.
func startCluster(t *testing.T, users ...cluster.User) *cluster.Cluster {
	t.Helper()
	c := startEmptyCluster(t, users...)
	if err := errors.Join(c.InstallIstioCRDs(t.Context()), c.InstallTaperCRDs(t.Context())); err != nil {
		t.Fatal(err)
	}
	return c
}

// startEmptyCluster runs an API server that has only the types of Kubernetes. Its logs
// are quoted if the test fails; with -artifacts they are kept.
func startEmptyCluster(t *testing.T, users ...cluster.User) *cluster.Cluster {
	t.Helper()
	need(t, "etcd", "kube-apiserver", "pilot-discovery", "envoy")
	c, err := cluster.Start(t.Context(), cluster.Config{Dir: t.ArtifactDir(), Users: users})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Err(); err != nil {
			t.Error(err)
		}
		c.Close()
		if t.Failed() {
			quoteLogs(t, c.Dir())
		}
	})
	return c
}

// need skips the test, or fails it with TAPER_TEST_REQUIRE_ALL=1, unless it has a
// network of its own and these executables.
func need(t *testing.T, executables ...string) {
	t.Helper()
	err := cluster.Isolated()
	for _, name := range executables {
		if _, missing := exec.LookPath(name); missing != nil && err == nil {
			err = fmt.Errorf("%w: run \"make e2e\", or put .tools/bin first in PATH", missing)
		}
	}
	switch {
	case err == nil:
	case os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// startIstiod runs istiod and n Envoys in namespace demo with these arms.
func startIstiod(t *testing.T, c *cluster.Cluster, n int, arms ...proxy.Arm) (*cluster.Istiod, *proxy.Group) {
	t.Helper()
	istiod, err := c.StartIstiod(t.Context(), cluster.IstiodConfig{})
	if err != nil {
		t.Fatal(err)
	}
	envoys, err := istiod.StartEnvoys(t.Context(), cluster.Envoys{Namespace: "demo", Count: n, Arms: arms})
	if err != nil {
		t.Fatal(err)
	}
	return istiod, envoys
}

// quotedBytes bounds how much of each log a failed test quotes.
const quotedBytes = 2000

func quoteLogs(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".log") || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && len(text) > 0 {
			t.Logf("end of %s:\n%s", path, text[max(0, len(text)-quotedBytes):])
		}
		return err
	})
	if err != nil {
		t.Log(err)
	}
}

// must fails the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until probe returns nil, and fails the test if it does not.
func eventually(t *testing.T, within time.Duration, what string, probe func(context.Context) error) {
	t.Helper()
	must(t, cluster.Eventually(t.Context(), within, what, probe))
}

// awaitWeights waits until each Envoy balances an arm by exactly these weights.
func awaitWeights(t *testing.T, envoys *proxy.Group, arm proxy.Arm, want model.Weights) {
	t.Helper()
	eventually(t, withinDefault, fmt.Sprintf("Envoys balance by %v", want), func(ctx context.Context) error {
		all, err := envoys.Weights(ctx, arm.Cluster)
		if err != nil {
			return err
		}
		for i, got := range all {
			if !maps.Equal(got, want) {
				return fmt.Errorf("Envoy %d balances by %v", i, got)
			}
		}
		return nil
	})
}

// serve answers HTTP requests at an address with the address, until the test ends.
func serve(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, address) }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// get sends a request through an Envoy and returns the status and the body, which
// with serve says who has answered.
func get(ctx context.Context, envoy string, arm proxy.Arm) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+envoy+"/", nil)
	if err != nil {
		return 0, "", err
	}
	req.Host = arm.Name
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(http.MaxBytesReader(nil, resp.Body, 1<<20)); err != nil {
		return 0, "", err
	}
	return resp.StatusCode, text.String(), nil
}

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/test/cluster"
)

// measurer may do what docs/net.md says that it takes, and no more.
var measurer = cluster.User{Name: "measurer"}

const measurerBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: measurer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: taper-net-matrix}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: measurer}]
`

// documentedRole is the first YAML of the section "In a cluster".
func documentedRole(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/net.md")
	must(t, err)
	_, section, ok := strings.Cut(string(text), "\n## In a cluster\n")
	_, role, fenced := strings.Cut(section, "```yaml\n")
	role, _, closed := strings.Cut(role, "```")
	if !ok || !fenced || !closed || !strings.Contains(role, "kind: ClusterRole") {
		t.Fatal("docs/net.md has no role in its section \"In a cluster\"")
	}
	return role
}

// startMatrixCluster has machines, who runs agents on them, and a user who may apply them.
func startMatrixCluster(t *testing.T, nodes int) (*cluster.Cluster, []*machine, *controller) {
	t.Helper()
	need(t, "nsenter", "setpriv")
	c := startEmptyCluster(t, measurer)
	must(t, c.Apply(t.Context(), []byte(documentedRole(t)+"\n---\n"+measurerBinding)))
	list := machines(t, c, nodes)
	return c, list, startController(t, c, list)
}

// matrixCommand is taper net matrix --kubernetes with short trials.
func matrixCommand(t *testing.T, c *cluster.Cluster, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	kubeconfig, err := c.KubeconfigFor(measurer.Name)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "../../bin/taper", append([]string{
		"net", "matrix", "--kubernetes", "--image", "taper/taper:test", "--kubeconfig", kubeconfig, "--json",
	}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	return cmd, &out, &errOut
}

// nothingLeft tells that neither objects nor agents are there any more.
func nothingLeft(t *testing.T, c *cluster.Cluster, d *controller) {
	t.Helper()
	var namespaces corev1.NamespaceList
	must(t, c.Client().List(t.Context(), &namespaces))
	for _, n := range namespaces.Items {
		if strings.HasPrefix(n.Name, "taper-net-") {
			t.Errorf("namespace %s is left: %+v", n.Name, n.Status)
		}
	}
	if n := d.count(); n > 0 {
		t.Errorf("%d agents are left", n)
	}
}

// Four nodes, of which one cannot pull the image: the others are measured on all paths,
// with the rights that are documented, and nothing is left.
func TestNetworkMatrix(t *testing.T) {
	c, list, d := startMatrixCluster(t, 4)
	list[3].broken.Store(true)
	cmd, out, errOut := matrixCommand(t, c, "--ready", "15s", "--trial", "100ms", "--trials", "2", "--latency-pairs", "2")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errOut)
	}
	var m probe.Matrix
	must(t, json.Unmarshal(out.Bytes(), &m))
	if len(m.Agents) != 4 || !strings.Contains(m.Agents[3].Problem, "ImagePullBackOff: there is no such image") {
		t.Fatalf("%+v", m.Agents)
	}
	for i, a := range m.Agents[:3] {
		if a.Name != fmt.Sprintf("node-%d", i) || a.Block != fmt.Sprintf("zone-%d", i%2) || a.Problem != "" {
			t.Errorf("%+v", a)
		}
	}
	paths := map[probe.Path]int{}
	for _, cell := range m.Cells {
		if cell.Problem != "" || cell.From == cell.To {
			t.Errorf("%+v", cell)
		}
		if cell.BytesPerS > 0 {
			paths[cell.Path]++
		}
	}
	// A service may lead an agent to itself, through each of its four ports.
	if paths[probe.HostPath] != 6 || paths[probe.PodPath] != 6 || paths[probe.ServicePath]+len(m.Notes) < 1 {
		t.Errorf("cells with bandwidth: %v; notes %q", paths, m.Notes)
	}
	if len(m.Native) < 2 || m.Native[1].Path != probe.PodPath || m.Native[1].Pairs != 6 || m.Incomplete != "" {
		t.Errorf("%+v, %q", m.Native, m.Incomplete)
	}
	t.Logf("cells %v, of native %+v, notes %q", paths, m.Native, m.Notes)
	nothingLeft(t, c, d)
}

// Ctrl-C while it waits for agents, and while they measure.
func TestNetworkMatrixInterrupted(t *testing.T) {
	c, list, d := startMatrixCluster(t, 2)
	for _, test := range []struct {
		name   string
		broken bool
		until  func(context.Context) error
		says   string
	}{
		{"waiting", true, func(context.Context) error { return d.runs(2) }, "interrupted; nothing is left running"},
		{"measuring", false, func(context.Context) error { return d.measured() }, "what was measured is not whole: interrupted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			list[1].broken.Store(test.broken)
			cmd, out, errOut := matrixCommand(t, c, "--trial", "50ms", "--trials", "100")
			must(t, cmd.Start())
			eventually(t, withinDefault, test.name, test.until)
			must(t, cmd.Process.Signal(syscall.SIGINT))
			err := cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(errOut.String(), test.says) {
				t.Errorf("exit code %d, %v: %q, want %q in it", code, err, errOut, test.says)
			}
			nothingLeft(t, c, d)
			if test.broken {
				return
			}
			var m probe.Matrix
			must(t, json.Unmarshal(out.Bytes(), &m))
			if m.Incomplete != "interrupted" || len(m.Cells) == 0 {
				t.Errorf("%+v", m)
			}
			for _, cell := range m.Cells {
				if cell.BytesPerS == 0 {
					t.Errorf("%+v", cell)
				}
			}
		})
	}
}

// runs tells that so many containers do.
func (d *controller) runs(want int) error {
	if n := d.count(); n < want {
		return fmt.Errorf("%d of %d run", n, want)
	}
	return nil
}

// measured tells that agents have sent more than one trial can carry.
func (d *controller) measured() error {
	sent := 0
	for _, m := range d.machines {
		for _, n := range []*network{m.host, m.pod} {
			bytes, err := n.sent()
			if err != nil {
				return err
			}
			sent += bytes
		}
	}
	if sent < 500e6 {
		return fmt.Errorf("%d bytes have been sent", sent)
	}
	return nil
}

// sent counts bytes on the way out.
func (n *network) sent() (bytes int, err error) {
	var stats []byte
	err = n.Do(func() (err error) {
		stats, err = os.ReadFile("/proc/thread-self/net/dev")
		return err
	})
	for line := range strings.Lines(string(stats)) {
		if fields := strings.Fields(line); len(fields) > 9 && fields[0] == "eth0:" {
			return strconv.Atoi(fields[9])
		}
	}
	return 0, err
}

// A cluster that takes nothing: what is missing is said, and nothing is left.
func TestNetworkMatrixForbidden(t *testing.T) {
	c := startEmptyCluster(t, measurer)
	must(t, c.Apply(t.Context(), []byte(strings.Replace(documentedRole(t), "daemonsets", "deployments", 1)+"\n---\n"+measurerBinding)))
	d := startController(t, c, nil)
	cmd, _, errOut := matrixCommand(t, c)
	if err := cmd.Run(); err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"putting agents on the host network: not allowed", "daemonsets.apps is forbidden", "docs/net.md"} {
		if !strings.Contains(errOut.String(), want) {
			t.Errorf("%q is not in %q", want, errOut)
		}
	}
	nothingLeft(t, c, d)
	left, err := d.client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%v, %d secrets", err, len(left.Items))
	}
}

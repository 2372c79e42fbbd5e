package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/matrix/kubernetes"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
	"taper.dev/taper/internal/probe/agent/agenttest"
)

const matrixToken = "a token of some length"

// serveAgent runs an agent on the loopback until the test ends.
func serveAgent(t *testing.T, address, token, name string) *agent.Server {
	t.Helper()
	return agenttest.Serve(t, agent.Options{Address: address, Token: agent.Token(token), Host: probe.Host{Version: "v1", Name: name, Node: name}})
}

// runMatrix runs the command, with a cluster if there is one, and returns what it says.
func runMatrix(ctx context.Context, t *testing.T, cluster clientset.Interface, args ...string) (*probe.Matrix, error) {
	t.Helper()
	c := &netMatrix{connect: func(string, string) (clientset.Interface, string, error) {
		if cluster == nil {
			return nil, "", errors.New("no cluster")
		}
		return cluster, "demo", nil
	}}
	cmd := c.command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(append(args, "--json"))
	err := cmd.ExecuteContext(ctx)
	if out.Len() == 0 {
		return nil, err
	}
	var m probe.Matrix
	if jsonErr := json.Unmarshal(out.Bytes(), &m); jsonErr != nil {
		t.Fatalf("%v in:\n%s", jsonErr, out.String())
	}
	return &m, err
}

func tokenFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(matrixToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// brief are flags that make a matrix short.
var brief = []string{"--trial", "30ms", "--trials", "1", "--latency-pairs", "1", "--wait", "20s"}

func TestNetMatrix(t *testing.T) {
	t.Parallel()
	var hosts, pods []string
	for _, name := range []string{"a", "b", "c"} {
		hosts = append(hosts, name+"="+serveAgent(t, "127.0.0.1:0", matrixToken, name).Addr().String())
		pods = append(pods, name+"="+serveAgent(t, "127.0.0.1:0", matrixToken, name).Addr().String())
	}
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte("currency: EUR\nperHour: {a: 0.5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"--token-file", tokenFile(t), "--agents", strings.Join(hosts, ","), "--pod-agents", strings.Join(pods, ","),
		"--blocks", "a=west,b=east", "--prices", prices,
	}, brief...)
	m, err := runMatrix(t.Context(), t, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Agents) != 3 || m.Agents[0].Name != "a" || m.Agents[0].Block != "west" || m.Agents[2].Block != "" || m.Agents[0].PricePerGbit <= 0 || m.Currency != "EUR" {
		t.Errorf("%+v, %s", m.Agents, m.Currency)
	}
	bandwidth := 0
	for _, c := range m.Cells {
		if c.BytesPerS > 0 {
			bandwidth++
		}
		if c.Problem != "" {
			t.Errorf("%+v", c)
		}
	}
	if bandwidth != 12 || len(m.Native) != 2 || m.Native[1].Path != probe.PodPath || m.Native[1].Pairs != 6 {
		t.Errorf("%d cells with bandwidth, %+v", bandwidth, m.Native)
	}
}

func TestNetMatrixUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "no agents: name them"},
		{[]string{"--agents", "a=h", "--selector", "x=y"}, "are different ways to find agents"},
		{[]string{"--agents", "a=h"}, "a matrix of 1 agents is not possible"},
		{[]string{"--agents", "a=h,a=i"}, `"a" is there twice, at h and at i`},
		{[]string{"--agents", "a=h,b=h"}, "h is given twice, for a and for b"},
		{[]string{"--agents", "a=h,b="}, `"b=" is no agent`},
		{[]string{"--agents", "a=h,b=127.0.0.1"}, "127.0.0.1 is another machine to each agent"},
		{[]string{"--service-agents", "a=h,b=i"}, "it could not be asked"},
		{[]string{"--agents", "a=h,b=i", "--blocks", "c=west"}, "with the name of an agent: they are a, b"},
		{[]string{"--agents", "a=h,b=i", "--trials", "0"}, "0 trials are not possible"},
		{[]string{"--agents", "a=h,b=i", "--nodes", "pool=a"}, "are for --kubernetes"},
		{[]string{"--agents", "a=h,b=i", "--prices", "/none"}, "reading prices: open /none"},
		{[]string{"--agents", "a=h,b=i", "--ca", "x"}, "--ca is for --tls"},
		{[]string{"--selector", "x=y", "--blocks", "a=b"}, "--blocks is for --agents"},
		{[]string{"--selector", "x=y", "--trial", "0s"}, "a trial of 0s is not possible"},
		{[]string{"--kubernetes"}, "--image is needed"},
		{[]string{"--kubernetes", "--image", "a b"}, `"a b" is no image`},
		{[]string{"--kubernetes", "--image", "taper", "--nodes", "pool"}, `"pool" is no list of labels`},
		{[]string{"--kubernetes", "--image", "taper", "--token-file", tokenFile(t)}, "a token of their own"},
		{[]string{"--kubernetes", "--image", "taper", "--services", "x"}, "--services is not for --kubernetes"},
		{[]string{"--kubernetes", "--image", "taper", "--ready", "0s"}, "agents cannot be ready in 0s"},
		{[]string{"more"}, "takes no argument"},
	} {
		_, err := runMatrix(t.Context(), t, nil, test.args...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q in it", test.args, err, test.want)
			continue
		}
		if code := command.Exit(&bytes.Buffer{}, "taper", err); code != command.ExitUsage {
			t.Errorf("%v: exit code %d", test.args, code)
		}
	}
}

// What was measured until Ctrl-C is shown, and said not to be all.
func TestNetMatrixCutShort(t *testing.T) {
	t.Parallel()
	a, b := serveAgent(t, "127.0.0.1:0", matrixToken, "a"), serveAgent(t, "127.0.0.1:0", matrixToken, "b")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		tick, late := time.NewTicker(10*time.Millisecond), time.After(patience)
		defer tick.Stop()
		for a.Stats().Trials < 3 {
			select {
			case <-tick.C:
			case <-late:
				return
			}
		}
	}()
	m, err := runMatrix(ctx, t, nil, "--token-file", tokenFile(t), "--agents", fmt.Sprintf("a=%v,b=%v", a.Addr(), b.Addr()), "--trial", "20ms", "--trials", "100")
	if err == nil || err.Error() != "what was measured is not whole: interrupted" || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if m == nil || m.Incomplete != "interrupted" || len(m.Cells) != 1 || m.Cells[0].BytesPerS == 0 {
		t.Errorf("%+v", m)
	}
}

// matrixCluster is a fake API server that runs agents for DaemonSets, on addresses of the
// loopback as if each were a node's or a pod's.
func matrixCluster(t *testing.T, nodes int) *fake.Clientset {
	t.Helper()
	c := fake.NewClientset()
	c.PrependReactor("create", "daemonsets", func(action k8stesting.Action) (bool, runtime.Object, error) {
		set := action.(k8stesting.CreateAction).GetObject().(*appsv1.DaemonSet)
		namespace := action.GetNamespace()
		secret, err := c.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), namespace, "token")
		if err != nil {
			return true, nil, err
		}
		set.Generation, set.Status.ObservedGeneration, set.Status.DesiredNumberScheduled = 1, 1, int32(nodes)
		for i := range nodes {
			name := fmt.Sprintf("node-%d", i)
			at := serveAgent(t, fmt.Sprintf("127.0.%d.%d:0", len(set.Name), 10+i), string(secret.(*corev1.Secret).Data["token"]), name).Addr()
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set.Name + "-" + name, Labels: set.Spec.Template.Labels},
				Spec:       *set.Spec.Template.Spec.DeepCopy(),
				Status:     corev1.PodStatus{PodIP: at.Addr().String(), Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			}
			pod.Spec.NodeName, pod.Spec.Containers[0].Ports[0].ContainerPort = name, int32(at.Port())
			if err := c.Tracker().Add(pod); err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	})
	return c
}

func leftIn(t *testing.T, c clientset.Interface) []kubernetes.Leftover {
	t.Helper()
	left, err := kubernetes.Leftovers(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestNetMatrixKubernetes(t *testing.T) {
	t.Parallel()
	c := matrixCluster(t, 3)
	old := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "taper-net-old", Labels: map[string]string{
		"app.kubernetes.io/name": "taper-net", "app.kubernetes.io/managed-by": "taper",
	}}}
	if err := c.Tracker().Add(old); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--kubernetes", "--image", "taper/taper:v1"}, brief...)
	m, err := runMatrix(t.Context(), t, c, args...)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Agents) != 3 || len(m.Cells) < 12 || len(m.Native) != 2 || m.Incomplete != "" {
		t.Errorf("%+v", m)
	}
	if len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "`kubectl delete namespace taper-net-old`") {
		t.Errorf("%q", m.Notes)
	}
	if left := leftIn(t, c); len(left) != 1 || left[0].Namespace != "taper-net-old" {
		t.Errorf("left: %+v", left)
	}
	m, err = runMatrix(t.Context(), t, c, append(args, "--remove-leftovers")...)
	if err != nil || len(m.Notes) != 0 || len(leftIn(t, c)) != 0 {
		t.Errorf("%v, %+v, left: %+v", err, m, leftIn(t, c))
	}
}

// Ctrl-C on the way: what was measured is shown, what was applied is removed, and if it
// cannot be, that is said.
func TestNetMatrixInterrupted(t *testing.T) {
	t.Parallel()
	for _, stuck := range []bool{false, true} {
		t.Run(fmt.Sprintf("stuck=%v", stuck), func(t *testing.T) {
			t.Parallel()
			c := matrixCluster(t, 3)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var once sync.Once
			// The nodes are listed when all agents are ready.
			c.PrependReactor("list", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) {
				once.Do(cancel)
				return false, nil, nil
			})
			if stuck {
				c.PrependReactor("delete", "namespaces", func(k8stesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "x", errors.New("no"))
				})
			}
			m, err := runMatrix(ctx, t, c, append([]string{"--kubernetes", "--image", "taper/taper:v1"}, brief...)...)
			if err == nil || m != nil {
				t.Fatalf("%+v, %v", m, err)
			}
			if stuck != strings.Contains(err.Error(), "kubectl delete namespace taper-net-") || stuck == errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if left := leftIn(t, c); stuck != (len(left) == 1) {
				t.Errorf("left: %+v", left)
			}
		})
	}
}

func TestNetMatrixSelector(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	for i := range 2 {
		at := serveAgent(t, fmt.Sprintf("127.0.9.%d:0", 10+i), matrixToken, fmt.Sprint(i)).Addr()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tools", Name: fmt.Sprint("p", i), Labels: map[string]string{"app": "net"}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprint("node-", i), Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "net", ContainerPort: int32(at.Port())}}}}},
			Status:     corev1.PodStatus{PodIP: at.Addr().String(), Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
		if err := c.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"--token-file", tokenFile(t), "--selector", "app=net"}, brief...)
	m, err := runMatrix(t.Context(), t, c, append(args, "--namespace", "tools")...)
	if err != nil || len(m.Agents) != 2 || m.Agents[1].Name != "node-1" || len(m.Cells) != 2 {
		t.Errorf("%v, %+v", err, m)
	}
	if _, err := runMatrix(t.Context(), t, c, args...); err == nil || !strings.Contains(err.Error(), "no pod in namespace demo carries app=net") {
		t.Error(err)
	}
}

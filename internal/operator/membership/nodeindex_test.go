package membership

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func TestNodeLocality(t *testing.T) {
	t.Parallel()
	const (
		region, zone         = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
		oldRegion, oldZone   = "failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"
		subzone, unimportant = "topology.istio.io/subzone", "kubernetes.io/hostname"
	)
	tests := map[string]struct {
		labels map[string]string
		want   string
	}{
		"none":            {nil, ""},
		"others":          {map[string]string{unimportant: "x"}, ""},
		"empty":           {map[string]string{region: "", zone: "", subzone: ""}, ""},
		"all":             {map[string]string{region: "r", zone: "z", subzone: "s"}, "r/z/s"},
		"region and zone": {map[string]string{region: "r", zone: "z"}, "r/z/"},
		"zone only":       {map[string]string{zone: "z"}, "/z/"},
		"subzone only":    {map[string]string{subzone: "s"}, "//s"},
		"old labels":      {map[string]string{oldRegion: "r", oldZone: "z"}, "r/z/"},
		"new before old":  {map[string]string{region: "r", oldRegion: "x", zone: "", oldZone: "z"}, "r/z/"},
	}
	for name, test := range tests {
		if got := nodeLocality(test.labels); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// nodeIn is the metadata of a node in a zone of region r; of none when it is empty.
func nodeIn(name, version, zone string) *metav1.PartialObjectMetadata {
	n := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version, Labels: map[string]string{"kubernetes.io/hostname": name}},
	}
	if zone != "" {
		n.Labels[corev1.LabelTopologyRegion], n.Labels[corev1.LabelTopologyZone] = "r", zone
	}
	return n
}

func fakeNodes(t *testing.T, nodes ...runtime.Object) *fake.FakeMetadataClient {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewSimpleMetadataClient(scheme, nodes...)
}

func TestNodeIndex(t *testing.T) {
	t.Parallel()
	client, stream := fakeNodes(t, nodeIn("a", "1", "z1"), nodeIn("b", "2", "")), kwatch.NewRaceFreeFake()
	client.PrependWatchReactor("nodes", clienttesting.DefaultWatchReactor(stream, nil))
	index, err := NewNodeIndex(client, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan string, 100)
	index.OnChange(func(node string) { changed <- node + " " + index.Locality(node) })
	startAndSync(t, index)
	if got := receive(t, changed); got != "a r/z1/" {
		t.Errorf("told %q", got)
	}
	for node, want := range map[string]string{"a": "r/z1/", "b": "", "c": "", "": ""} {
		if got := index.Locality(node); got != want {
			t.Errorf("locality of node %q: %q, want %q", node, got, want)
		}
	}
	stream.Modify(nodeIn("a", "3", "z1")) // a heartbeat: nothing to tell
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { stream.Modify(nodeIn("b", "4", "z2")) }, "b r/z2/"},
		{func() { stream.Modify(nodeIn("a", "5", "z3")) }, "a r/z3/"},
		{func() { stream.Delete(nodeIn("a", "6", "z3")) }, "a "},
		{func() { stream.Add(nodeIn("c", "7", "z1")) }, "c r/z1/"},
	} {
		step.do()
		if got := receive(t, changed); got != step.want {
			t.Errorf("told %q, want %q", got, step.want)
		}
	}
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Without leave to read nodes the operator goes on, and says so; once leave is
// given, it learns where the nodes are.
func TestNodeIndexForbidden(t *testing.T) {
	t.Parallel()
	client := fakeNodes(t, nodeIn("a", "1", "z1"))
	var allowed atomic.Bool
	var asked atomic.Int32
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		if allowed.Load() {
			return false, nil, nil
		}
		return true, nil, errForbidden
	})
	var log syncBuffer
	index, err := NewNodeIndex(client, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan string, 10)
	index.OnChange(func(node string) { changed <- node })
	startAndSync(t, index)
	if err := index.Err(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ClusterRole") {
		t.Errorf("error %v does not say what must be allowed", err)
	}
	if got := index.Locality("a"); got != "" {
		t.Errorf("locality %q", got)
	}
	until(t, func() bool { return asked.Load() >= 2 })
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("logged %d times for %d failures, want once:\n%s", n, asked.Load(), &log)
	}
	allowed.Store(true)
	if got := receive(t, changed); got != "a" || index.Locality("a") != "r/z1/" {
		t.Errorf("told of %q in %q", got, index.Locality("a"))
	}
	if err := index.Err(); err != nil {
		t.Errorf("still an error: %v", err)
	}
	if !strings.Contains(log.String(), "reading again") {
		t.Errorf("the log does not say that it is over:\n%s", &log)
	}
}

// An API server that does not answer says nothing about where nodes are.
func TestNodeIndexUnreachable(t *testing.T) {
	t.Parallel()
	client := fakeNodes(t)
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	index, err := NewNodeIndex(client, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	start(t, index)
	until(t, func() bool { return index.Err() != nil })
	if index.Synced() {
		t.Error("synced without an answer")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := index.WaitForSync(ctx); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error %v does not say why nodes are unknown", err)
	}
}

func TestIndexesOnStandbys(t *testing.T) {
	t.Parallel()
	if new(PodIndex).NeedLeaderElection() || new(NodeIndex).NeedLeaderElection() {
		t.Error("a standby would have to learn pods and nodes when it takes over")
	}
}

func TestCompactNode(t *testing.T) {
	t.Parallel()
	got, err := compactNode(nodeIn("a", "1", "z1"))
	if err != nil {
		t.Fatal(err)
	}
	if key, err := cache.MetaNamespaceKeyFunc(got); key != "a" || err != nil {
		t.Errorf("key %q, error %v", key, err)
	}
	if again, err := compactNode(got); again != got || err != nil {
		t.Errorf("a compact node became %v, error %v", again, err)
	}
	gone, err := compactNode(cache.DeletedFinalStateUnknown{Key: "a", Obj: nodeIn("a", "1", "z1")})
	if n := toNode(gone); err != nil || n == nil || n.locality != "r/z1/" {
		t.Errorf("a node that is gone: %v, error %v", n, err)
	}
	index := &NodeIndex{}
	index.OnChange(func(node string) { t.Errorf("told of %q", node) })
	nodeHandler{index}.OnDelete(cache.DeletedFinalStateUnknown{Key: "a"})
	if got, err := compactNode(&corev1.Node{}); err == nil {
		t.Errorf("a full node became %v", got)
	}
}

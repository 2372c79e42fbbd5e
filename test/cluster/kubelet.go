package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kubelet is of a kubelet what metrics-server asks: the CPU time that containers of
// its node have used. Its methods may be called from any goroutine.
type Kubelet struct {
	server *http.Server
	served chan struct{}
	err    error // set before served is closed

	mu     sync.Mutex
	usages map[types.NamespacedName]usage
}

// usage is a counter of CPU time that rises evenly.
type usage struct {
	container string
	started   time.Time
	seconds   float64 // until since
	cores     float64 // from then on
	since     time.Time
}

// startedWith is a container's CPU time at first, in seconds: to metrics-server a
// counter of 0 is none.
const startedWith = 0.1

// at is the counter's value.
func (u usage) at(now time.Time) float64 {
	return u.seconds + u.cores*now.Sub(u.since).Seconds()
}

// StartKubelet serves at an address of the node, and makes the node say so: its
// status gets the address and the port. Call it before the node is created; Close
// of the cluster ends it.
func (c *Cluster) StartKubelet(node *corev1.Node, ip string) (*Kubelet, error) {
	certificate, err := tls.LoadX509KeyPair(c.pki.cert(serving), c.pki.key(serving))
	if err != nil {
		return nil, fmt.Errorf("starting the kubelet of %s: %w", node.Name, err)
	}
	listener, err := tls.Listen("tcp", net.JoinHostPort(ip, "0"), &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return nil, fmt.Errorf("starting the kubelet of %s: %w", node.Name, err)
	}
	node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(listener.Addr().(*net.TCPAddr).Port)

	k := &Kubelet{served: make(chan struct{}), usages: make(map[types.NamespacedName]usage)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics/resource", k.serve)
	k.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(k.served)
		k.err = k.server.Serve(listener)
	}()
	c.watch(k.Err, k.Close)
	return k, nil
}

// Use lets the first container of a pod use that many cores from now on.
func (k *Kubelet) Use(pod *corev1.Pod, cores float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, key := time.Now(), client.ObjectKeyFromObject(pod)
	u, ok := k.usages[key]
	if !ok {
		u = usage{container: pod.Spec.Containers[0].Name, started: now, seconds: startedWith, since: now}
	}
	u.seconds, u.since, u.cores = u.at(now), now, cores
	k.usages[key] = u
}

// Forget leaves a pod out from now on. When it is used again, it has restarted.
func (k *Kubelet) Forget(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.usages, client.ObjectKeyFromObject(pod))
}

// Err says why the kubelet ended by itself; nil while it runs, and after Close.
func (k *Kubelet) Err() error {
	select {
	case <-k.served:
		if !errors.Is(k.err, http.ErrServerClosed) {
			return fmt.Errorf("a kubelet ended: %w", k.err)
		}
	default:
	}
	return nil
}

// Close ends the server. It may be called more than once.
func (k *Kubelet) Close() {
	k.server.Close()
	<-k.served
}

func (k *Kubelet) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprint(w, k.metrics(time.Now()))
}

// metrics is the text of /metrics/resource. Memory stands still: metrics-server
// leaves out what has none.
func (k *Kubelet) metrics(now time.Time) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	const memory = 100 << 20
	ms := now.UnixMilli()
	var text strings.Builder
	total := startedWith
	for _, key := range slices.SortedFunc(maps.Keys(k.usages), byName) {
		u := k.usages[key]
		labels := fmt.Sprintf("{container=%q,namespace=%q,pod=%q}", u.container, key.Namespace, key.Name)
		fmt.Fprintf(&text, "container_cpu_usage_seconds_total%s %f %d\n", labels, u.at(now), ms)
		fmt.Fprintf(&text, "container_memory_working_set_bytes%s %d %d\n", labels, memory, ms)
		fmt.Fprintf(&text, "container_start_time_seconds%s %f %d\n", labels, float64(u.started.UnixMilli())/1000, ms)
		total += u.at(now)
	}
	fmt.Fprintf(&text, "node_cpu_usage_seconds_total %f %d\n", total, ms)
	fmt.Fprintf(&text, "node_memory_working_set_bytes %d %d\n", memory*(1+len(k.usages)), ms)
	return text.String()
}

func byName(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

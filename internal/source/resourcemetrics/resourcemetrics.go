package resourcemetrics

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"taper.dev/taper/internal/model"
)

const (
	// sidecar is the container that carries Istio's proxy. What it uses is left out:
	// its limit is not counted as the pod's capacity either, since it serves no
	// request itself, and a pod whose proxy is busy is not a slow pod.
	sidecar = "istio-proxy"

	// maxAtOnce bounds the calls under way, and so the answers in memory.
	maxAtOnce = 4

	// maxWindow is the longest time that a usage may be the mean of. Over more it
	// says nothing of now.
	maxWindow = time.Hour
)

// Source asks the metrics API of one cluster.
type Source struct {
	client *client
}

// New takes how to reach the API server; it does not contact it. The rate limit of
// the configuration is not used: the number of calls under way is bounded instead.
func New(config *rest.Config) (*Source, error) {
	c, err := newClient(config)
	if err != nil {
		return nil, err
	}
	return &Source{client: c}, nil
}

// Collect implements [taper.dev/taper/internal/source.Source] with CPU readings.
//
// Namespaces fail apart from each other: when some did not answer, both results
// are set, the snapshot with what the others said and the error with the names of
// those that failed. The snapshot is nil only when none answered. An endpoint
// whose name is not "namespace/pod" is no pod, and missing.
func (s *Source) Collect(ctx context.Context, endpoints []model.Endpoint) (model.Snapshot, error) {
	wanted := byNamespace(endpoints)
	var (
		mu       sync.Mutex
		snapshot = make(model.Snapshot, len(endpoints))
		failed   failures
		group    errgroup.Group
	)
	group.SetLimit(maxAtOnce)
	for _, namespace := range slices.Sorted(maps.Keys(wanted)) {
		group.Go(func() error {
			list, err := s.client.list(ctx, namespace)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, failure{namespace, err})
				return nil
			}
			wanted[namespace].read(list, snapshot)
			return nil
		})
	}
	_ = group.Wait() // failures are kept apart: one does not end the others
	if len(failed) == 0 {
		return snapshot, nil
	}
	err := failed.in(len(wanted))
	if len(failed) == len(wanted) {
		return nil, err
	}
	return snapshot, err
}

// pods are the addresses of pods by their name. A pod has several behind more than
// one port or service.
type pods map[string][]string

func byNamespace(endpoints []model.Endpoint) map[string]pods {
	wanted := map[string]pods{}
	for _, e := range endpoints {
		namespace, pod, ok := strings.Cut(e.Name, "/")
		if !ok || namespace == "" || pod == "" {
			continue
		}
		if wanted[namespace] == nil {
			wanted[namespace] = pods{}
		}
		wanted[namespace][pod] = append(wanted[namespace][pod], e.Address)
	}
	return wanted
}

// read adds what the list says of the pods to the snapshot.
func (p pods) read(list *v1beta1.PodMetricsList, snapshot model.Snapshot) {
	for i := range list.Items {
		addresses := p[list.Items[i].Name]
		if len(addresses) == 0 {
			continue
		}
		if cpu := usage(&list.Items[i]); cpu.Known() {
			for _, address := range addresses {
				snapshot[address] = model.Sample{CPU: cpu, Window: list.Items[i].Window.Duration}
			}
		}
	}
}

// usage is the CPU of the pod's own containers, in cores, at the end of the window
// that it is the mean of. It is missing when one of them has no value, when there
// is none of them, and when the window cannot be one. A negative value is handed on
// for the decision to call it invalid.
func usage(pod *v1beta1.PodMetrics) model.Reading {
	if pod.Timestamp.IsZero() || pod.Window.Duration <= 0 || pod.Window.Duration > maxWindow {
		return model.Reading{}
	}
	var sum model.Reading
	for _, container := range pod.Containers {
		if container.Name == sidecar {
			continue
		}
		cpu, ok := container.Usage[corev1.ResourceCPU]
		if !ok {
			return model.Reading{}
		}
		cores := cpu.AsApproximateFloat64()
		sum.At = pod.Timestamp.Time
		if cores < 0 {
			sum.Value = cores
			return sum
		}
		sum.Value += cores
	}
	return sum
}

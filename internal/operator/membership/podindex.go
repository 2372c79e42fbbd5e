package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// notEnded leaves out pods that have ended: jobs leave many of them behind.
const notEnded = "status.phase!=Failed,status.phase!=Succeeded"

// PodIndex knows the pods of some namespaces. Its methods may be called at any
// time, by several goroutines.
type PodIndex struct {
	// watches are by namespace; a single one under "" follows all.
	watches  map[string]*watch
	onChange []func(old, new *Pod)
}

// NewPodIndex follows the pods of the given namespaces, or of all when none are
// given. It needs leave to list and watch pods there. The client should take
// protobuf, which is far cheaper to read for pods than JSON.
func NewPodIndex(client kubernetes.Interface, logger *slog.Logger, namespaces ...string) (*PodIndex, error) {
	if len(namespaces) == 0 || slices.Contains(namespaces, metav1.NamespaceAll) {
		namespaces = []string{metav1.NamespaceAll}
	}
	index := &PodIndex{watches: make(map[string]*watch, len(namespaces))}
	for _, namespace := range namespaces {
		w, err := newWatch(index.kind(client, namespace), logger)
		if err != nil {
			return nil, err
		}
		index.watches[namespace] = w
	}
	return index, nil
}

func (x *PodIndex) kind(client kubernetes.Interface, namespace string) kind {
	k := kind{
		name: "pods of namespace " + namespace, cure: "a Role there must allow the operator to list and watch pods",
		client: client, example: &corev1.Pod{}, transform: CompactPod, handler: podHandler{x},
	}
	if namespace == metav1.NamespaceAll {
		k.name, k.cure = "pods", "a ClusterRole must allow the operator to list and watch pods, or its namespaces be named"
	}
	k.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		o.FieldSelector = notEnded
		return client.CoreV1().Pods(namespace).List(ctx, o)
	}
	k.watch = func(ctx context.Context, o metav1.ListOptions) (kwatch.Interface, error) {
		o.FieldSelector = notEnded
		return client.CoreV1().Pods(namespace).Watch(ctx, o)
	}
	return k
}

// OnChange has f called when a pod comes (old is nil), goes (new is nil) or changes
// in what an entry carries or a decision rests on; not with every heartbeat. f is
// called for one pod of a namespace at a time, should be quick, and must not change
// the pods. Call OnChange before Start.
func (x *PodIndex) OnChange(f func(old, new *Pod)) { x.onChange = append(x.onChange, f) }

// Start follows the pods until ctx ends. It is called once.
func (x *PodIndex) Start(ctx context.Context) error {
	var group sync.WaitGroup
	for _, w := range x.watches {
		group.Go(func() { w.run(ctx) })
	}
	group.Wait()
	return nil
}

// NeedLeaderElection is false: a standby must know the pods when it takes over.
func (x *PodIndex) NeedLeaderElection() bool { return false }

// Get returns the pod of that name; nil when there is none, or none that has not
// ended, or when its namespace is not followed.
func (x *PodIndex) Get(namespace, name string) *Pod {
	w := x.watches[namespace]
	if w == nil {
		w = x.watches[metav1.NamespaceAll]
	}
	if w == nil {
		return nil
	}
	pod, _ := w.get(namespace + "/" + name).(*Pod)
	return pod
}

// Synced tells whether the pods that there were at the start are known and OnChange
// has been told of them. Before that, an endpoint's pod may be taken for unknown.
func (x *PodIndex) Synced() bool {
	for _, w := range x.watches {
		if !done(w.synced.Done()) {
			return false
		}
	}
	return true
}

// WaitForSync waits until Synced. When ctx ends before, its error says why.
func (x *PodIndex) WaitForSync(ctx context.Context) error {
	for _, w := range x.watches {
		select {
		case <-w.synced.Done():
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s not known yet: %w", w.kind.name, context.Cause(ctx)), w.lastErr())
		}
	}
	return nil
}

// Err is why pods cannot be read at the moment; nil when they can. What was known
// before goes on being known.
func (x *PodIndex) Err() error {
	var all []error
	for _, w := range x.watches {
		all = append(all, w.lastErr())
	}
	return errors.Join(all...)
}

// podHandler passes on the changes that matter.
type podHandler struct{ *PodIndex }

// OnAdd implements [cache.ResourceEventHandler].
func (h podHandler) OnAdd(object any, _ bool) { h.tell(nil, toPod(object)) }

// OnUpdate implements [cache.ResourceEventHandler].
func (h podHandler) OnUpdate(before, after any) {
	if old, changed := toPod(before), toPod(after); !old.sameEndpoint(changed) {
		h.tell(old, changed)
	}
}

// OnDelete implements [cache.ResourceEventHandler].
func (h podHandler) OnDelete(object any) {
	if gone := toPod(object); gone != nil {
		h.tell(gone, nil)
	}
}

func (h podHandler) tell(old, changed *Pod) {
	for _, f := range h.onChange {
		f(old, changed)
	}
}

// toPod unwraps what an informer hands out; nil for a pod that is gone and was never
// known.
func toPod(object any) *Pod {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	pod, _ := object.(*Pod)
	return pod
}

package membership

import (
	"hash/maphash"
	"maps"
	"runtime"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
)

// template is what pods made from one template have in common. Most pods of a
// cluster are of a few thousand ReplicaSets; their labels would be the larger part
// of what is kept of them.
type template struct {
	namespace, serviceAccount string
	labels                    map[string]string
}

// templates are those that some pod still has.
var templates = newTemplateTable()

// templateTable finds a template by its content. It holds no template itself, and
// forgets one with the last pod that has it.
type templateTable struct {
	seed maphash.Seed

	mu     sync.Mutex
	byHash map[uint64]weak.Pointer[template]
}

func newTemplateTable() *templateTable {
	return &templateTable{seed: maphash.MakeSeed(), byHash: make(map[uint64]weak.Pointer[template])}
}

// of returns the template of a pod, whose labels it may take over.
func (t *templateTable) of(pod *corev1.Pod) *template {
	key := t.hash(pod)
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.byHash[key].Value(); known != nil {
		if known.namespace == pod.Namespace && known.serviceAccount == pod.Spec.ServiceAccountName && maps.Equal(known.labels, pod.Labels) {
			return known
		}
		// Two contents of one hash: the second is not shared.
		return &template{pod.Namespace, pod.Spec.ServiceAccountName, pod.Labels}
	}
	made := &template{pod.Namespace, pod.Spec.ServiceAccountName, pod.Labels}
	t.byHash[key] = weak.Make(made)
	runtime.AddCleanup(made, t.forget, key)
	return made
}

// forget runs after a template has gone, unless another one has taken its place.
func (t *templateTable) forget(key uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byHash[key].Value() == nil {
		delete(t.byHash, key)
	}
}

// hash does not depend on the order of labels.
func (t *templateTable) hash(pod *corev1.Pod) uint64 {
	sum := maphash.String(t.seed, pod.Namespace) + 3*maphash.String(t.seed, pod.Spec.ServiceAccountName)
	for key, value := range pod.Labels {
		sum += maphash.Comparable(t.seed, [2]string{key, value})
	}
	return sum
}

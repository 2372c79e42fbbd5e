package operator

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// mentions knows which policies have to look again when a pod changes: those whose
// EndpointSlices mention it.
type mentions struct {
	mu       sync.Mutex
	byPod    map[string][]types.NamespacedName
	byPolicy map[types.NamespacedName][]string
}

func newMentions() *mentions {
	return &mentions{byPod: map[string][]types.NamespacedName{}, byPolicy: map[types.NamespacedName][]string{}}
}

// watch sets the pods, sorted podKeys, that a policy's slices mention; none forgets it.
func (m *mentions) watch(policy types.NamespacedName, pods []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.byPolicy[policy]
	if slices.Equal(before, pods) {
		return
	}
	for _, pod := range before {
		if _, still := slices.BinarySearch(pods, pod); still {
			continue
		}
		left := slices.DeleteFunc(m.byPod[pod], func(p types.NamespacedName) bool { return p == policy })
		if len(left) == 0 {
			delete(m.byPod, pod)
		} else {
			m.byPod[pod] = left
		}
	}
	for _, pod := range pods {
		if _, already := slices.BinarySearch(before, pod); !already {
			m.byPod[pod] = append(m.byPod[pod], policy)
		}
	}
	if len(pods) == 0 {
		delete(m.byPolicy, policy)
	} else {
		m.byPolicy[policy] = pods
	}
}

// of returns the policies that mention a pod.
func (m *mentions) of(pod string) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.byPod[pod])
}

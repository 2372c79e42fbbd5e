package serviceentry

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
)

// Record is what is kept of a ServiceEntry. It is shared, and must not be changed.
type Record struct {
	// ObjectMeta has namespace, name, UID and resource version, and nothing else.
	metav1.ObjectMeta
	Hosts []string
	// Managed tells that the entry is taper's. The rest is known of such ones only.
	Managed bool
	// Policy and PolicyUID name the policy that owns the entry; empty when somebody
	// took the owner away.
	Policy    string
	PolicyUID types.UID
	// Digest is that of what the entry says.
	Digest Digest
	// Weights are by address.
	Weights map[string]uint32
}

// GetObjectKind implements [runtime.Object].
func (r *Record) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements [runtime.Object]. What a Record refers to is never changed.
func (r *Record) DeepCopyObject() runtime.Object {
	out := *r
	return &out
}

// Index knows the ServiceEntries of the cluster, those of others too, since two
// entries with one host disturb each other. It is safe for concurrent use.
type Index struct {
	logger   *slog.Logger
	watches  []*watched
	handlers []func(before, after *Record)

	mu      sync.RWMutex
	records map[types.NamespacedName]*Record
	hosts   map[hostKey]map[string]*Record // by name
}

type hostKey struct{ namespace, host string }

// NewIndex makes an index of the ServiceEntries in the given namespaces, or of all
// when none is given. The client is one of [NewClient].
func NewIndex(client rest.Interface, namespaces []string, logger *slog.Logger) *Index {
	x := &Index{logger: logger, records: map[types.NamespacedName]*Record{}, hosts: map[hostKey]map[string]*Record{}}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		x.watches = append(x.watches, newWatched(x, client, namespace))
	}
	return x
}

// OnChange has changed called for every change from now on, also for what is there
// at the start: before is nil for an entry that is new, and after for one that is
// gone. It must return soon. It is not to be used after Start.
func (x *Index) OnChange(changed func(before, after *Record)) {
	x.handlers = append(x.handlers, changed)
}

// Start watches until ctx ends. It does not fail: where there is no Istio, it tries
// again until there is, and Synced tells.
func (x *Index) Start(ctx context.Context) error {
	var running sync.WaitGroup
	for _, w := range x.watches {
		running.Go(func() { w.run(ctx) })
	}
	running.Wait()
	return nil
}

// NeedLeaderElection is false: a replica that takes over has to know the entries.
func (x *Index) NeedLeaderElection() bool { return false }

// Synced tells whether the index can be relied on: all entries are known and changes
// arrive. It is false where the cluster has no ServiceEntries, and again when they
// may no longer be read.
func (x *Index) Synced() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, w := range x.watches {
		if !w.synced {
			return false
		}
	}
	return true
}

// Absent tells whether the cluster does not have ServiceEntries at all, as far as was
// last seen: then there is nothing to remove either.
func (x *Index) Absent() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, w := range x.watches {
		if !w.absent {
			return false
		}
	}
	return true
}

// Get returns the entry of that name.
func (x *Index) Get(namespace, name string) (Record, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	record := x.records[types.NamespacedName{Namespace: namespace, Name: name}]
	if record == nil {
		return Record{}, false
	}
	return *record, true
}

// ForHost returns the entries of a namespace that have the host, sorted by name.
func (x *Index) ForHost(namespace, host string) []Record {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []Record
	for _, record := range x.hosts[hostKey{namespace, host}] {
		out = append(out, *record)
	}
	slices.SortFunc(out, func(a, b Record) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// reached tells whether the index knows of all that happened in the namespace up to
// a resource version.
func (x *Index) reached(namespace, version string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, w := range x.watches {
		if w.covers(namespace) {
			return !older(w.version, version)
		}
	}
	return false
}

// set replaces what is known of an entry; after is nil when it is gone.
func (x *Index) set(key types.NamespacedName, after *Record) (before *Record) {
	before = x.records[key]
	if before != nil {
		for _, host := range before.Hosts {
			byName := x.hosts[hostKey{key.Namespace, host}]
			delete(byName, key.Name)
			if len(byName) == 0 {
				delete(x.hosts, hostKey{key.Namespace, host})
			}
		}
	}
	if after == nil {
		delete(x.records, key)
		return before
	}
	x.records[key] = after
	for _, host := range after.Hosts {
		at := hostKey{key.Namespace, host}
		if x.hosts[at] == nil {
			x.hosts[at] = map[string]*Record{}
		}
		x.hosts[at][key.Name] = after
	}
	return before
}

func (x *Index) tell(before, after *Record) {
	for _, changed := range x.handlers {
		changed(before, after)
	}
}

// older tells whether resource version a is before b. A version that is no number
// was never given, and is before all others.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return a == ""
	}
	return order < 0
}

// compact keeps what is needed of an entry.
func compact(s *ServiceEntry) (*Record, error) {
	r := &Record{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion},
		Hosts:      s.Spec.Hosts,
		Managed:    managed(&s.ObjectMeta),
	}
	if !r.Managed {
		return r, nil
	}
	if owner := policyOf(&s.ObjectMeta); owner != nil {
		r.Policy, r.PolicyUID = owner.Name, owner.UID
	}
	var err error
	if r.Digest, err = digestOf(s); err != nil {
		return nil, err
	}
	r.Weights = make(map[string]uint32, len(s.Spec.Endpoints))
	for i := range s.Spec.Endpoints {
		r.Weights[s.Spec.Endpoints[i].Address] = s.Spec.Endpoints[i].Weight
	}
	return r, nil
}

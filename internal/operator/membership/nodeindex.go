package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// NodeIndex knows where nodes are. Only their metadata is read. Its methods may be
// called at any time, by several goroutines.
type NodeIndex struct {
	watch    *watch
	onChange []func(node string)
}

// NewNodeIndex follows all nodes. It needs leave to list and watch nodes; without
// it, localities are empty, which Err says and the log repeats.
func NewNodeIndex(client metadata.Interface, logger *slog.Logger) (*NodeIndex, error) {
	index := &NodeIndex{}
	nodes := client.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
	w, err := newWatch(kind{
		name: "nodes",
		cure: "a ClusterRole must allow the operator to list and watch nodes; until then localities that no pod is labelled with are empty, and locality failover does not work for balanced services",
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return nodes.List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (kwatch.Interface, error) {
			return nodes.Watch(ctx, o)
		},
		client: client, example: &metav1.PartialObjectMetadata{}, transform: compactNode, handler: nodeHandler{index},
	}, logger)
	if err != nil {
		return nil, err
	}
	index.watch = w
	return index, nil
}

// OnChange has f called with the name of a node whose locality has changed, from or
// to being empty included. f should be quick. Call OnChange before Start.
func (x *NodeIndex) OnChange(f func(node string)) { x.onChange = append(x.onChange, f) }

// Start follows the nodes until ctx ends. It is called once.
func (x *NodeIndex) Start(ctx context.Context) error {
	x.watch.run(ctx)
	return nil
}

// NeedLeaderElection is false: a standby must know the nodes when it takes over.
func (x *NodeIndex) NeedLeaderElection() bool { return false }

// Locality returns where a node is, as region/zone/subzone in istiod's form; empty
// when its labels do not say, or the node is unknown.
func (x *NodeIndex) Locality(name string) string {
	if node, ok := x.watch.get(name).(*node); ok {
		return node.locality
	}
	return ""
}

// Synced tells whether the nodes that there were at the start are known, or known
// not to be readable: see Err. Before that, localities would be wrongly empty.
func (x *NodeIndex) Synced() bool {
	return done(x.watch.synced.Done()) || done(x.watch.forbidden)
}

// WaitForSync waits until Synced. When ctx ends before, its error says why.
func (x *NodeIndex) WaitForSync(ctx context.Context) error {
	select {
	case <-x.watch.synced.Done():
	case <-x.watch.forbidden:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("nodes not known yet: %w", context.Cause(ctx)), x.watch.lastErr())
	}
	return nil
}

// Err is why nodes cannot be read at the moment; nil when they can. What was known
// before goes on being known.
func (x *NodeIndex) Err() error { return x.watch.lastErr() }

// node is what of a node is kept.
type node struct {
	name, resourceVersion string
	locality              string
}

// GetObjectMeta lets an informer find the name and the resource version.
func (n *node) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: n.name, ResourceVersion: n.resourceVersion}
}

// GetObjectKind implements [runtime.Object].
func (n *node) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements [runtime.Object].
func (n *node) DeepCopyObject() runtime.Object {
	out := *n
	return &out
}

// compactNode is the transform of the informer of nodes.
func compactNode(obj any) (any, error) {
	switch obj := obj.(type) {
	case *node:
		return obj, nil
	case *metav1.PartialObjectMetadata:
		return &node{obj.Name, obj.ResourceVersion, nodeLocality(obj.Labels)}, nil
	case cache.DeletedFinalStateUnknown:
		return compactGone(obj, compactNode)
	}
	return nil, fmt.Errorf("an informer of nodes got a %T; want a node's metadata", obj)
}

// nodeHandler passes on changes of locality.
type nodeHandler struct{ *NodeIndex }

// OnAdd implements [cache.ResourceEventHandler].
func (h nodeHandler) OnAdd(object any, _ bool) { h.tell(&node{}, toNode(object)) }

// OnUpdate implements [cache.ResourceEventHandler].
func (h nodeHandler) OnUpdate(before, after any) { h.tell(toNode(before), toNode(after)) }

// OnDelete implements [cache.ResourceEventHandler].
func (h nodeHandler) OnDelete(object any) {
	if gone := toNode(object); gone != nil {
		h.tell(gone, &node{name: gone.name})
	}
}

func (h nodeHandler) tell(before, after *node) {
	if before.locality == after.locality {
		return
	}
	for _, f := range h.onChange {
		f(after.name)
	}
}

// toNode unwraps what an informer hands out; nil for a node that is gone and was
// never known.
func toNode(object any) *node {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	known, _ := object.(*node)
	return known
}

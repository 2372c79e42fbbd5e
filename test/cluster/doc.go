// Package cluster runs a real Kubernetes control plane on one machine, for tests
// and benchmarks: etcd, kube-apiserver, istiod and metrics-server as children of
// this process. There is no kubelet and no controller manager, so nodes, pods and
// EndpointSlices are what a test says they are: see [Node], [Pod], [EndpointSlice].
//
// [Isolate], or [Main] for a test binary, comes first: it moves the program into a
// network without a way out, where 10.9.0.0/16 and fd09::/64 are its own. Then
// [Start] gives a [Cluster] with an API server; [Cluster.StartIstiod] adds a mesh,
// [Istiod.StartEnvoys] its clients, [Cluster.StartMetricsServer] resource metrics.
// Each [Server] can be killed, paused and started again on the same port and data.
//
// The executables are looked up in PATH; tools/fetch.sh etcd cluster envoy gets them.
package cluster

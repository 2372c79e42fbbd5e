// Package resourcemetrics measures pods by asking the metrics.k8s.io API, which
// metrics-server provides: CPU only, and no store is needed.
//
// Endpoints whose Name is "namespace/pod" come in, one list call per namespace is
// made, and readings go out, each with the time and for the window that the API
// states. It takes the verb list on pods of the API group metrics.k8s.io and
// nothing of nodes.
//
// What metrics-server (0.9) says and leaves out, since it matters here:
//
//   - The timestamp is the end of the window, and the earliest one of the pod's
//     containers. It comes in whole seconds, rounded down: a sample is never
//     fresher than it says.
//   - A pod is left out, as a whole, while it is not Running, and while one of its
//     containers has not been seen twice or has used no CPU or memory at all. It is
//     missing then, not zero.
//   - A container that does not run is not listed, and the pod is without it. Such a
//     pod is not ready, so it is no endpoint either.
//   - A container whose counter ran backwards is left out of the list of its pod,
//     which is understated by it until the next scrape. Nothing in the answer tells.
//
// An adapter may serve the API instead of metrics-server. prometheus-adapter stamps
// its answers with the time of the question, so how old its samples are cannot be
// told: its Prometheus had better be asked directly.
//
// Start with [New] and [Source.Collect]; client.go holds the API call and what its
// errors mean.
package resourcemetrics

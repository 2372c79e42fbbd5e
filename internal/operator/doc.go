// Package operator carries out BalancePolicies on a cluster with Istio.
//
// What comes in: policies, Services, EndpointSlices, pods and nodes, by watching the
// API server, and samples, by asking sources once per interval. What goes out:
// ServiceEntries with weights, and the policies' status.
//
// [Run] is where to start (run.go); it builds a [reconciler] (reconciler.go) whose
// four verbs have a file each: observe.go, decide.go, apply.go, report.go. Two
// things make it act: events (watch.go) and rounds of samples (collector.go). How a
// service is given back is in giveback.go. The design is told in docs/operator.md.
package operator

// Package kubernetes finds the agents of a matrix in a cluster. [Pods] are those that run
// already, by a label; [Apply] puts agents on all nodes, on the host network and on the pod
// network, with a Service before the latter, all in a namespace of its own, which
// [Deployment.Remove] deletes. [Connect] is how to reach the API server.
//
// Agents of one node are one row of the matrix: their names are the nodes'. Nodes also say
// which block (zone) and of what type a machine is.
package kubernetes

// Package metrics shows what the operator does as Prometheus metrics; they are
// listed in docs/operator-metrics.md, which a test here writes.
//
// What is true now of policies and endpoints is read from the journal when
// somebody scrapes (policies.go), so it is never older than the journal and gone
// with its policy. What happened is counted by the methods of [Metrics], which the
// reconciler calls (events.go). Unknown values have no series; none is ever 0 for
// want of a measurement.
package metrics

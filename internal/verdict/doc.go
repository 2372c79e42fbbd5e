// Package verdict says what measurements of a network mean. Figures go in, and what can be
// told from chance comes out. It is pure: the same figures, and the same seed, always give
// the same answer.
//
// Of trials (see docs/net.md for how they are made):
//
//   - [Order] puts what is measured in a round in random order;
//   - [Estimate] is the median of trials with its interval (estimate.go, rank.go);
//   - [Compare] says whether a path is better or worse than another, or that nobody can
//     tell, by differences within rounds and by the noise floor (compare.go, shift.go);
//     [CompareRuns] does so for two runs of their own;
//   - [Enough] says when to stop.
//
// Of bandwidth over time, [Shaping] finds token buckets.
//
// Of a matrix of agents, [Plan] says who measures with whom, [Sample] whose latency is
// looked at, and [Outliers] what is unlike the rest (outlier.go, by median polish: polish.go).
//
// Of throughput under more and more users, [Plateau] says where it stops growing, and
// [Bottleneck] which hop is full.
//
// Figures are in whatever unit the caller has. NaN marks a trial without one: it is left
// out, never taken for 0. All intervals are of 95 %.
package verdict

// Package probe is the vocabulary of network measurement: what is asked for ([Spec]),
// what one trial gave at both ends ([Trial], [Side]), and what is told of many of them
// ([Result], [Matrix], [PageLoad]).
//
// A trial has a near end, where the question was asked, and a far end, an agent that
// `taper net serve` runs. Below this package, socket has what both ends need of the
// kernel, stream and datagram are the two ends of each test, pure statistics are in
// package verdict, and agent brings ends together.
//
// Times are from monotonic clocks; the time of day is only ever a label.
package probe

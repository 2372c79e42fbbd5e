// Package matrix measures what agents give each other, all of them: it has them measure
// in rounds of disjoint pairs, on each path (host, pod, service) in turn, and says what is
// unlike the rest and what each path gives of the native one.
//
// [Run] is where to start. It asks agents over their control connections ([Conn], which a
// [taper.dev/taper/internal/probe/agent.Client] is), and no bytes of a measurement come to
// this process. [LoadPrices] reads what machines cost. Package kubernetes, below, finds
// agents among pods, or puts them on all nodes.
package matrix

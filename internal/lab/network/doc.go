// Package network repeats the third published story on this machine: what an overlay
// costs, what a cloud's burst hides, and a load balancer whose own interface is full while
// all CPUs are idle.
//
//	         native, shaped: a cable each
//	      ┌────────────────────────────────┐          web-1   web-2
//	   machine a ── VXLAN over native ── machine b      │       │
//	      │  └── UDP, by a program on each ──┘ │         │       │
//	      │                                    │         │       │
//	──────┴──────────── switch ────────────────┴─────────┴───────┴──┬──────
//	                      │                                      balancer,
//	       this program: asks, and loads pages            an Envoy behind a narrow interface
//
// Machines are network namespaces with processes in them. Those of a and b are agents, the
// same that `taper net serve` runs: this program tells a to measure to b, by one path
// after the other, and does not touch what is measured. It only makes the networks.
//
// [Run] does all of it. The parts: pair is a and b, site is the balancer and what is
// behind it, forwarder is the overlay that copies packets in user space. [Result.Headline]
// and [Result.Rows] say what came of it; [Published] is what the story's authors measured.
package network

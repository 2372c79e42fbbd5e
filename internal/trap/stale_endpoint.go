package trap

import (
	"fmt"
	"net/netip"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// fewStale connections that fail are chance.
const fewStale = 2

// staleEndpoint sees connections to an address inside the cluster that has served before
// and refuses now, or is silent: a pod that is gone, of which whoever connects has not
// heard yet.
type staleEndpoint struct {
	endpoints table[netip.AddrPort, endpoint]
	peers     peers
}

// endpoint is an address, and how opening connections to it went.
type endpoint struct {
	inbound  bool
	served   capture.Time // first connection that carried something; 0 is none
	failures uint64
	newest   [MaxEvidence]failure
}

type failure struct {
	syn     capture.Mark
	refused bool
}

func newStaleEndpoint() Rule {
	return &staleEndpoint{endpoints: newTable[netip.AddrPort, endpoint](maxPeers), peers: newPeers()}
}

func (*staleEndpoint) ID() string { return "stale-endpoint" }

func (e *staleEndpoint) Conn(c *capture.Conn) {
	addr := c.Addr[capture.Server]
	if c.Transport != capture.TCP || isOutside(addr.Addr()) || isMetadata(addr.Addr()) {
		return
	}
	failed := refused(c) || ignored(c)
	if !failed && c.Exchanges == 0 {
		return
	}
	row := e.endpoints.at(addr)
	switch {
	case row == nil:
	case failed:
		row.inbound = inbound(c)
		row.newest[row.failures%MaxEvidence] = failure{c.SYNs[0], refused(c)}
		row.failures++
	case row.served == 0 || c.First.Time < row.served:
		row.served = c.First.Time
	}
}

func (e *staleEndpoint) Request(r *attribution.Request) { e.peers.learn(r) }

func (e *staleEndpoint) Findings(s Scene) []Finding {
	var found []Finding
	for addr, row := range e.endpoints.rows {
		if f, ok := e.finding(addr, row, s); ok {
			found = append(found, f)
		}
	}
	return inOrder(found)
}

// finding is about one address, whose failures count from when it had served.
func (e *staleEndpoint) finding(addr netip.AddrPort, row *endpoint, s Scene) (Finding, bool) {
	var shown evidence
	n, refusals := row.failures, 0
	for _, f := range row.newest[:min(row.failures, MaxEvidence)] {
		if row.served == 0 || f.syn.Time < row.served {
			n-- // it had yet to start
			continue
		}
		if f.refused {
			refusals++
		}
		shown.add(f.syn.Packet)
	}
	if n < fewStale || len(shown) == 0 {
		return Finding{}, false
	}
	how := "refused"
	if refusals*2 < len(shown) {
		how = "left unanswered"
	}
	f := Finding{
		ID: e.ID(), Severity: High, Evidence: shown.sorted(),
		Title: fmt.Sprintf("%s to %s, which had served before, failed (%s): it was sent traffic after it had gone.",
			count(n, "connection", "connections"), e.peers.withName(addr), how),
		Fix:       "Give its pods a preStop hook that sleeps until all have heard that they go (5 to 15 s), within terminationGracePeriodSeconds, and a readiness probe.",
		Reference: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination",
	}
	if p := s.Config.Pod; (row.inbound || e.peers.serves(addr)) && p != nil && !p.PreStop {
		f.Confirmed = "the pod has containers without a preStop hook"
	}
	return f, true
}

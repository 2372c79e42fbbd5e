package trap

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// slowMetadata is when SDKs give up: botocore after 1 s, others later.
	slowMetadata = time.Second
	// fewMetadata calls without an answer may be the capture's last ones.
	fewMetadata = 2
)

// metadataSlow sees metadata services that do not answer, or too late. That the answer to
// PUT alone is missing is imdsv2-hop-limit's.
type metadataSlow struct {
	calls, slow, silent, closed uint64
	charge                      charge
	evidence                    evidence
}

func newMetadataSlow() Rule { return &metadataSlow{} }

func (*metadataSlow) ID() string { return "metadata-slow" }

func (m *metadataSlow) Exchange(x *capture.Exchange) {
	if x.HTTP == nil || x.HTTP.Metadata == nil {
		return
	}
	m.calls++
	if !isSlowMetadata(x) {
		return
	}
	if x.Answered() {
		m.slow++
	} else {
		m.silent++
	}
	m.evidence.add(x.Request.First.Packet, x.Response.Last.Packet)
}

func isSlowMetadata(x *capture.Exchange) bool {
	if x.HTTP == nil || x.HTTP.Metadata == nil || unansweredToken(x) {
		return false
	}
	return !x.Answered() || x.End().Sub(x.Start()) >= slowMetadata
}

func (m *metadataSlow) Conn(c *capture.Conn) {
	if !isMetadata(c.Addr[capture.Server].Addr()) || len(c.SYNs) == 0 {
		return
	}
	if ignored(c) || refused(c) {
		m.closed++
		m.evidence.add(synPackets(c)...)
	}
}

func (m *metadataSlow) Request(r *attribution.Request) {
	m.charge.add(waited(r, func(l *attribution.Link) bool {
		return l.Cause == attribution.Metadata && isSlowMetadata(l.Exchange)
	}, func(_, _ *attribution.Link) bool { return true }, attribution.Metadata))
}

func (m *metadataSlow) Findings(s Scene) []Finding {
	if m.slow+m.silent+m.closed < fewMetadata {
		return nil
	}
	f := Finding{
		ID: m.ID(), Severity: m.charge.severity(s), Cost: m.charge.cost(s), Evidence: m.evidence.sorted(),
		Title: fmt.Sprintf("The metadata service was slow or silent: of %s %d took %s or more and %d got no answer, and %d connections failed; %s.",
			count(m.calls, "call", "calls"), m.slow, span(slowMetadata), m.silent, m.closed, m.charge.atCost(s)),
		Fix:       "Let the pod reach it (network policy, hop limit, the issuer on its node), or tell the SDK where its credentials are and not to ask (AWS_EC2_METADATA_DISABLED=true).",
		Reference: "https://docs.aws.amazon.com/sdkref/latest/guide/feature-imds-credentials.html",
	}
	// Somebody waited for it, if not a request.
	if f.Severity == Low {
		f.Severity = Medium
	}
	return []Finding{f}
}

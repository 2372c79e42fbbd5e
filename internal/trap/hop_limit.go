package trap

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// hopLimitLeast and hopLimitMost are how long after an unanswered PUT SDKs go on
	// without a token: they wait 1 to 5 seconds, some of them several times. Sooner is an
	// answer that the capture lacks.
	hopLimitLeast = 900 * time.Millisecond
	hopLimitMost  = 16 * time.Second
	// maxTokens bounds the unanswered calls and those without token that are kept of a
	// client; the newest count.
	maxTokens = 64
)

// hopLimit sees that the answer to PUT /latest/api/token does not reach the pod: its IP
// packets may pass one hop, and the pod's network is one more. SDKs wait, then go on
// without a token.
type hopLimit struct {
	clients table[netip.Addr, tokens]
	charge  charge
}

// tokens are the newest calls of a client in which the token matters.
type tokens struct {
	unanswered, without [maxTokens]capture.Mark
	puts, gets          int
}

func newHopLimit() Rule {
	return &hopLimit{clients: newTable[netip.Addr, tokens](maxClients)}
}

func (*hopLimit) ID() string { return "imdsv2-hop-limit" }

func (h *hopLimit) Exchange(x *capture.Exchange) {
	put, get := unansweredToken(x), withoutToken(x)
	if !put && !get {
		return
	}
	row := h.clients.at(x.Client().Addr())
	switch {
	case row == nil:
	case put:
		row.unanswered[row.puts%maxTokens] = x.Request.First
		row.puts++
	default:
		row.without[row.gets%maxTokens] = x.Request.First
		row.gets++
	}
}

func ofInstance(x *capture.Exchange) bool {
	return x.HTTP != nil && x.HTTP.Metadata != nil && x.HTTP.Metadata.Provider == capture.AWSInstance
}

func unansweredToken(x *capture.Exchange) bool {
	return ofInstance(x) && x.HTTP.Metadata.Kind == capture.MetadataSession && !x.Response.First.Seen()
}

func withoutToken(x *capture.Exchange) bool {
	return ofInstance(x) && x.HTTP.Metadata.Kind != capture.MetadataSession && !x.HTTP.Metadata.Token
}

// Request charges the waits between an unanswered PUT and the next GET.
func (h *hopLimit) Request(r *attribution.Request) {
	var lost time.Duration
	calls := 0
	for i := range r.Links {
		if r.Links[i].Cause != attribution.Metadata || !unansweredToken(r.Links[i].Exchange) {
			continue
		}
		put := r.Links[i].Exchange.Start()
		for j := i + 1; j < len(r.Links); j++ {
			next := r.Links[j].Exchange
			if !withoutToken(next) && !unansweredToken(next) {
				continue
			}
			if gaveUp(put, next.Start()) {
				lost += within(r, put, next.Start())
				calls++
			}
			break
		}
	}
	h.charge.add(lost, calls)
}

func gaveUp(put, next capture.Time) bool {
	wait := next.Sub(put)
	return wait >= hopLimitLeast && wait <= hopLimitMost
}

func (h *hopLimit) Findings(s Scene) []Finding {
	var hits uint64
	var waited time.Duration
	var shown evidence
	for _, row := range h.clients.rows {
		gets := row.without[:min(row.gets, maxTokens)]
		for _, put := range row.unanswered[:min(row.puts, maxTokens)] {
			i := slices.IndexFunc(gets, func(get capture.Mark) bool { return gaveUp(put.Time, get.Time) })
			if i >= 0 {
				hits++
				waited += gets[i].Time.Sub(put.Time)
				shown.add(put.Packet, gets[i].Packet)
			}
		}
	}
	if hits == 0 {
		return nil
	}
	// Whoever asked waited for a second, be it for a request or for the start.
	h.charge.longest = max(h.charge.longest, mean(waited, hits))
	return []Finding{{
		ID: h.ID(), Severity: h.charge.severity(s), Cost: h.charge.cost(s), Evidence: shown.sorted(),
		Title: fmt.Sprintf("PUT /latest/api/token went unanswered %s, and after %s on average the SDK went on without a token; %s.",
			count(hits, "time", "times"), span(mean(waited, hits)), h.charge.atCost(s)),
		Fix:       "Set the hop limit of the instance's metadata options to 2 (aws ec2 modify-instance-metadata-options --http-put-response-hop-limit 2), or use Pod Identity or IRSA.",
		Reference: "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-IMDS-existing-instances.html",
	}}
}

package trap

import (
	"fmt"
	"strings"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// connectionPerRequest sees connections that are opened for a request and closed after
// it: of the service to others, and of others to the service.
type connectionPerRequest struct {
	reuse  reuse
	probes recent[uint64]
}

func newConnectionPerRequest() Rule {
	return &connectionPerRequest{reuse: newReuse(), probes: newRecent[uint64](maxProbes)}
}

func (*connectionPerRequest) ID() string { return "connection-per-request" }

// probers never keep connections, and nobody waits for them.
var probers = []string{"kube-probe/", "ELB-HealthChecker/", "GoogleHC/", "Amazon-Route53-Health-Check", "Consul Health Check", "Blackbox-Exporter/", "Blackbox Exporter/"}

func (p *connectionPerRequest) Exchange(x *capture.Exchange) {
	if x.HTTP == nil || x.Index > 0 || x.HTTP.UserAgent == "" {
		return
	}
	for _, agent := range probers {
		if strings.HasPrefix(x.HTTP.UserAgent, agent) {
			p.probes.add(x.Conn.ID)
			return
		}
	}
}

func (p *connectionPerRequest) Conn(c *capture.Conn) {
	// SDKs open one for each call to a metadata service; that is credential-refresh's.
	if c.Transport != capture.TCP || c.Protocol == capture.DNS || p.probes.has(c.ID) || isMetadata(c.Addr[capture.Server].Addr()) {
		return
	}
	p.reuse.conn(c, carried(c))
}

// carried is how many requests a connection carried: its TLS handshake is none.
func carried(c *capture.Conn) uint64 {
	if c.Protocol == capture.TLS && c.Exchanges > 0 {
		return c.Exchanges - 1
	}
	return c.Exchanges
}

func (p *connectionPerRequest) Request(r *attribution.Request) {
	p.reuse.request(r, attribution.Connect)
	// A client that connects waits before its request begins.
	if c := r.Conn; r.Index == 0 && connected(c) && c.Established.Seen() {
		if row := p.reuse.servers.at(c.Addr[capture.Server]); row != nil {
			row.charge.add(c.Established.Time.Sub(c.SYNs[0].Time), 1)
		}
	}
}

func (p *connectionPerRequest) Findings(s Scene) []Finding {
	var found []Finding
	for _, in := range []bool{false, true} {
		list, sum := p.reuse.wasteful(in)
		if len(list) == 0 {
			continue
		}
		what := "The service opened %d connections for %d requests to %s and closed them; %s."
		fix := "Keep connections alive: use one client with a pool for the whole process, read answers to their end, and let the server keep idle connections."
		if in {
			what = "Clients opened %d connections for %d requests to the service (%s) and closed them; %s."
			fix = "Keep connections alive between the proxy and the service (NGINX: keepalive in the upstream and HTTP/1.1; the server: no \"Connection: close\")."
		}
		found = append(found, Finding{
			ID: p.ID(), Severity: sum.charge.severity(s), Cost: sum.charge.cost(s), Evidence: sum.evidence.sorted(),
			Title: fmt.Sprintf(what, sum.short, sum.requests, p.reuse.named(list), sum.charge.onAverage(s)),
			Fix:   fix, Reference: "https://www.rfc-editor.org/rfc/rfc9112#section-9.3",
		})
	}
	return found
}

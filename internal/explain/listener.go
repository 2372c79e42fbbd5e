package explain

import (
	"cmp"
	"slices"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/trap"
)

// listener tells the facts of a capture to all who want to know them: the linker and
// the rules. What the linker makes of them goes to the rules and the collector.
type listener struct {
	linker    *attribution.Linker
	rules     *trap.Rules
	collector *collector
	servers   map[Server]uint64 // with Exchanges zero
}

// maxServers bounds the servers that are counted, shownServers those that are named.
const (
	maxServers   = 1024
	shownServers = 5
)

func newListener(o *Options) *listener {
	l := &listener{
		rules:     trap.NewRules(trap.All()),
		collector: newCollector(o.KeepRequests, o.KeepSamples),
		servers:   map[Server]uint64{},
	}
	l.linker = attribution.New(attribution.Options{Service: o.Service}, l)
	return l
}

// Exchange implements [capture.Sink].
func (l *listener) Exchange(x *capture.Exchange) {
	l.rules.Exchange(x)
	l.linker.Exchange(x)
	l.countServer(x)
}

// countServer counts who answers, until it is known who the service is.
func (l *listener) countServer(x *capture.Exchange) {
	if l.collector.requests > 0 || !x.Answered() {
		return
	}
	switch x.Protocol {
	case capture.HTTP, capture.HTTP2, capture.GRPC:
		key := Server{Address: x.Server().String(), Protocol: x.Protocol}
		if _, known := l.servers[key]; known || len(l.servers) < maxServers {
			l.servers[key]++
		}
	}
}

// Stall implements [capture.Sink].
func (l *listener) Stall(s *capture.Stall) {
	l.rules.Stall(s)
	l.linker.Stall(s)
}

// Conn implements [capture.Sink].
func (l *listener) Conn(c *capture.Conn) {
	l.rules.Conn(c)
	l.linker.Conn(c)
}

// Advance implements [capture.Sink].
func (l *listener) Advance(t capture.Time) { l.linker.Advance(t) }

// Request implements [attribution.Sink].
func (l *listener) Request(r *attribution.Request) {
	l.rules.Request(r)
	l.collector.Request(r)
}

// Orphan implements [attribution.Sink].
func (l *listener) Orphan(o *attribution.Orphan) {
	l.rules.Orphan(o)
	l.collector.Orphan(o)
}

// explanation is what was heard, once the capture has ended.
func (l *listener) explanation(stats capture.Stats, config trap.Config) *Explanation {
	summary := l.linker.Finish()
	e := l.collector.explanation()
	e.Capture = convertStats(&stats)
	e.Capture.Foreign = summary.Foreign
	for _, s := range summary.Services {
		e.Service = append(e.Service, Service{Address: s.Addr.String(), Ports: s.Ports})
	}
	e.Recognised, e.Refusals = summary.Recognised, summary.Refusals
	if len(e.Routes) == 0 {
		e.Servers = l.busiest()
	}
	scene := trap.Scene{Stats: stats, Requests: l.collector.requests, Time: l.collector.time, Config: config}
	for _, f := range l.rules.Findings(scene) {
		e.Findings = append(e.Findings, convertFinding(f))
	}
	sortFindings(e.Findings)
	return e
}

func (l *listener) busiest() []Server {
	servers := make([]Server, 0, len(l.servers))
	for s, n := range l.servers {
		s.Exchanges = n
		servers = append(servers, s)
	}
	slices.SortFunc(servers, func(a, b Server) int {
		return cmp.Or(cmp.Compare(b.Exchanges, a.Exchanges), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Protocol, b.Protocol))
	})
	return servers[:min(len(servers), shownServers)]
}

// sortFindings puts the gravest first, and of those the costliest.
func sortFindings(findings []Finding) {
	gravity := map[trap.Severity]int{trap.High: 0, trap.Medium: 1, trap.Low: 2}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(gravity[a.Severity], gravity[b.Severity]),
			cmp.Compare(b.CostMSPerRequest, a.CostMSPerRequest),
			cmp.Compare(a.ID, b.ID))
	})
}

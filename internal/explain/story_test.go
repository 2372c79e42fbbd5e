package explain

import (
	"fmt"
	"net/netip"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/trap"
)

// A story makes requests as attribution tells them.
type story struct {
	*collector
	start  capture.Time
	packet uint64
	ids    uint64
}

var (
	service = netip.MustParseAddrPort("172.17.36.147:8080")
	ingress = netip.MustParseAddrPort("172.17.36.1:50122")
)

func newStory(keepRequests, samples int) *story {
	return &story{
		collector: newCollector(keepRequests, samples),
		start:     capture.At(time.Date(2019, 10, 2, 12, 0, 0, 0, time.UTC)), packet: 330,
	}
}

// step is a stretch of a request: own work when it has no cause.
type step struct {
	cause  attribution.Cause
	peer   string
	took   time.Duration
	op     string
	target string
	conn   uint64
	status int
	failed bool
	detail *capture.Metadata
}

// request tells a request made of steps, one after the other.
func (s *story) request(target string, pattern string, steps ...step) *attribution.Request {
	s.start = s.start.Add(time.Second)
	s.ids++
	r := &attribution.Request{
		ID: s.ids, Route: attribution.Route{Protocol: capture.HTTP, Method: "GET", Pattern: pattern},
		Certainty: attribution.Certain, Confidence: 1, Open: 1,
		Exchange: &capture.Exchange{
			Conn:     &capture.Conn{ID: 1, Addr: [2]netip.AddrPort{ingress, service}},
			Protocol: capture.HTTP, Op: "GET", Target: target, Status: 200,
		},
	}
	at := s.start
	first := s.mark(at)
	for _, step := range steps {
		s.step(r, at, step)
		at = at.Add(step.took)
	}
	r.Exchange.Request.First, r.Exchange.Request.Last = first, first
	r.Exchange.Response.First, r.Exchange.Response.Last = s.mark(at), s.mark(at)
	s.Request(r)
	return r
}

func (s *story) step(r *attribution.Request, at capture.Time, step step) {
	slice := attribution.Slice{Cause: step.cause, Peer: step.peer, From: at, To: at.Add(step.took), Link: -1}
	switch step.cause {
	case "":
		slice.Cause = attribution.Self
	case attribution.Call, attribution.Metadata, attribution.DNS, attribution.TLS:
		x := &capture.Exchange{
			Conn: &capture.Conn{ID: 10 + step.conn}, Protocol: capture.HTTP,
			Op: step.op, Target: step.target, Status: step.status, Failed: step.failed,
		}
		if step.detail != nil {
			x.HTTP = &capture.HTTPDetail{Metadata: step.detail}
		}
		x.Request.First = s.mark(at)
		x.Request.Last = x.Request.First
		x.Response.First = s.mark(at.Add(step.took))
		x.Response.Last = x.Response.First
		slice.Link, slice.Packets = len(r.Links), [2]uint64{x.Request.First.Packet, x.Response.Last.Packet}
		r.Links = append(r.Links, attribution.Link{
			Exchange: x, Cause: step.cause, Peer: step.peer, Probability: 1, Certainty: attribution.Certain,
		})
	default:
		slice.Packets = [2]uint64{s.mark(at).Packet, s.mark(at.Add(step.took)).Packet}
	}
	r.Slices = append(r.Slices, slice)
}

func (s *story) mark(at capture.Time) capture.Mark {
	s.packet++
	return capture.Mark{Time: at, Packet: s.packet}
}

const roles = "/latest/meta-data/iam/security-credentials/"

// articleSteps are what a request of the published story did; cured, the credentials
// are in hand.
func articleSteps(i int, cured bool) []step {
	jitter := time.Duration(i%7) * 100 * time.Microsecond
	imds := &capture.Metadata{Provider: capture.AWSInstance, Kind: capture.MetadataCredentials}
	steps := []step{
		{attribution.ClientNetwork, "", 40 * time.Microsecond, "", "", 0, 0, false, nil},
		{took: 400*time.Microsecond + jitter/4},
		{attribution.Metadata, "169.254.169.254", 41*time.Millisecond + jitter, "GET", roles, 1, 200, false, imds},
		{took: 30 * time.Microsecond},
		{attribution.Metadata, "169.254.169.254", 45*time.Millisecond - jitter/2, "GET", roles + "shop-role", 1, 200, false, imds},
		{took: 200 * time.Microsecond},
		{attribution.Call, "elasticsearch.internal:9200", 18*time.Millisecond + jitter, "POST", "/products/_search", 2, 200, false, nil},
		{took: 300 * time.Microsecond},
	}
	if cured {
		steps = append(steps[:2:2], steps[5:]...)
	}
	if i%5 == 0 {
		steps = append([]step{{attribution.DNS, "10.96.0.10", 2 * time.Millisecond, "A", "elasticsearch.internal", 3, 0, false, nil}}, steps...)
	}
	return steps
}

// article is an explanation of the published story.
func article(cured bool) *Explanation {
	s := newStory(DefaultRequests, 1000)
	for i := range 40 {
		s.request(fmt.Sprintf("/v1/%d", 42+i), "/v1/{id}", articleSteps(i, cured)...)
	}
	for range 3 {
		s.request("/health", "/health", step{took: 200 * time.Microsecond})
	}
	s.request("/v1/search", "/v1/search", step{took: time.Millisecond},
		step{attribution.Connect, "10.1.2.3:6379", 3 * time.Millisecond, "", "", 0, 0, false, nil},
		step{attribution.Call, "10.1.2.3:6379", 2 * time.Millisecond, "GET", "", 4, 1, true, nil},
		step{attribution.Retransmit, "10.1.2.3:6379", 203 * time.Millisecond, "", "", 0, 0, false, nil})
	e := s.explanation()
	e.Service = []Service{{Address: service.Addr().String(), Ports: []uint16{service.Port()}}}
	e.Capture = Capture{
		Files: []File{{"capture.pcap", 1, s.packet}}, Packets: s.packet, Bytes: 100_000,
		Start: s.start.Time(), DurationS: 44, MidConnections: 1, TruncatedPackets: 12,
		Connections: 9, Exchanges: map[string]uint64{capture.HTTP: 163, capture.DNS: 8},
	}
	if !cured {
		e.Findings = append(e.Findings, convertFinding(trap.Finding{
			ID: "credential-refresh", Severity: trap.High, Cost: 86 * time.Millisecond,
			Title:     "The credentials live 15 minutes and this SDK (aws-sdk-java/1.11) refreshes below 15, so every request refreshes",
			Fix:       "Let the issuer give longer sessions (KIAM --session-duration, ≥ 30 min) or update the SDK.",
			Reference: "https://github.com/aws/aws-sdk-java/issues/1893", Evidence: []uint64{333, 335, 337, 338},
		}))
	}
	e.Findings = append(e.Findings, convertFinding(trap.Finding{
		ID: "retransmit-timeout", Severity: trap.Medium, Cost: 5 * time.Millisecond,
		Title: "1 segment to 10.1.2.3:6379 was lost and sent again after 203 ms", Fix: "Find where packets are dropped.",
		Evidence: []uint64{640, 641},
	}))
	return e
}

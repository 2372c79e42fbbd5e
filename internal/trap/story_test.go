package trap

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// story tells facts of a capture as the stages before would: exchanges when they are
// answered, requests with slices that cover them, connections when they end.
// Moments are milliseconds after the capture's start.
type story struct {
	facts    []func(*Rules)
	packet   uint64
	conns    uint64
	requests uint64
	time     time.Duration
	config   Config
	blind    bool // the capture does not tell directions
}

// Who takes part in stories.
const (
	pod     = "10.0.0.5"
	gateway = "10.0.0.9"
	imds    = "169.254.169.254:80"
	search  = "10.0.3.7:9200"
	coredns = "10.96.0.10:53"
)

// begin is a moment in phase with nothing: 3 ms after a full 100 ms.
var begin = capture.At(time.Date(2026, 3, 4, 12, 0, 0, 3_000_000, time.UTC))

func at(ms float64) capture.Time { return begin.Add(time.Duration(ms * float64(time.Millisecond))) }

func (s *story) mark(ms float64) capture.Mark {
	s.packet++
	return capture.Mark{Time: at(ms), Packet: s.packet}
}

func (s *story) tell(fact func(*Rules)) { s.facts = append(s.facts, fact) }

// addr reads an address; one without a port gets one of its own.
func (s *story) addr(text string) netip.AddrPort {
	if a, err := netip.ParseAddrPort(text); err == nil {
		return a
	}
	return netip.AddrPortFrom(netip.MustParseAddr(text), uint16(30000+s.conns%30000))
}

// conn is a connection that the capture began in the middle of.
func (s *story) conn(client, server string) *capture.Conn {
	s.conns++
	c := &capture.Conn{ID: s.conns, Transport: capture.TCP, Mid: true, RTT: time.Millisecond, MSS: [2]uint16{1460, 1460}}
	c.Addr = [2]netip.AddrPort{s.addr(client), s.addr(server)}
	for side := range c.Local {
		c.Local[side] = !s.blind && c.Addr[side].Addr() == netip.MustParseAddr(pod)
	}
	return c
}

// dial is a connection whose handshake takes 1 ms, after SYNs that were lost.
func (s *story) dial(client, server string, syns ...float64) *capture.Conn {
	c := s.silent(client, server, syns...)
	answer := s.mark(syns[len(syns)-1] + 1)
	c.SYNACK, c.Established, c.Last = answer, answer, answer
	return c
}

// silent is a connection whose SYNs nobody answers.
func (s *story) silent(client, server string, syns ...float64) *capture.Conn {
	c := s.conn(client, server)
	c.Mid = false
	for _, ms := range syns {
		c.SYNs = append(c.SYNs, s.mark(ms))
	}
	c.First, c.Last = c.SYNs[0], c.SYNs[len(c.SYNs)-1]
	return c
}

// exchange is a question and its answer; a duration below 0 is no answer.
func (s *story) exchange(c *capture.Conn, start, took float64, op, target string) *capture.Exchange {
	x := &capture.Exchange{Conn: c, Protocol: capture.HTTP, Op: op, Target: target, Index: c.Exchanges, Status: 200}
	x.Request.First = s.mark(start)
	x.Request.Last = x.Request.First
	if took >= 0 {
		x.Response.First = s.mark(start + took)
		x.Response.Last = x.Response.First
	} else {
		x.Status = 0
	}
	x.HTTP = &capture.HTTPDetail{}
	c.Exchanges++
	c.Protocol = x.Protocol
	c.Last = capture.Mark{Time: x.End(), Packet: s.packet}
	c.Packets[capture.Client]++
	return x
}

// now tells the exchange as it is.
func (s *story) now(x *capture.Exchange) *capture.Exchange {
	s.tell(func(r *Rules) { r.Exchange(x) })
	return x
}

// http is an exchange of HTTP, told.
func (s *story) http(c *capture.Conn, start, took float64, op, target string) *capture.Exchange {
	return s.now(s.exchange(c, start, took, op, target))
}

// protocol is an exchange of another protocol, told.
func (s *story) protocol(name string, c *capture.Conn, start, took float64, op, target string) *capture.Exchange {
	x := s.exchange(c, start, took, op, target)
	x.Protocol, c.Protocol, x.HTTP = name, name, nil
	if name == capture.TLS {
		x.TLS = &capture.TLSDetail{Version: 0x0304, Alert: -1}
	}
	return s.now(x)
}

// metadata is a call to the instance metadata service that serves credentials with life
// left.
func (s *story) metadata(c *capture.Conn, start, took float64, kind capture.MetadataKind, life time.Duration) *capture.Exchange {
	path := map[capture.MetadataKind]string{
		capture.MetadataSession: "/latest/api/token", capture.MetadataRole: "/latest/meta-data/iam/security-credentials/",
		capture.MetadataCredentials: "/latest/meta-data/iam/security-credentials/cart",
	}[kind]
	x := s.exchange(c, start, took, "GET", path)
	x.HTTP.UserAgent = "aws-sdk-java/1.11.414 Linux/5.4 OpenJDK_64-Bit_Server_VM/11"
	x.HTTP.Metadata = &capture.Metadata{Provider: capture.AWSInstance, Kind: kind}
	if kind == capture.MetadataCredentials {
		x.HTTP.Metadata.Expires = x.End().Add(life)
	}
	return s.now(x)
}

// dns is a look-up of addresses; status 0 has an answer that lives for 30 s.
func (s *story) dns(c *capture.Conn, start, took float64, kind, name string, status int) *capture.Exchange {
	x := s.exchange(c, start, took, kind, name)
	x.Protocol, c.Protocol, x.HTTP, x.Status, x.Failed = capture.DNS, capture.DNS, nil, status, status > 0
	c.Transport = capture.UDP
	x.DNS = &capture.DNSDetail{Type: kind, TTL: 30 * time.Second}
	if status == 0 && took >= 0 {
		x.DNS.Addresses = []netip.Addr{netip.MustParseAddr("10.0.3.7")}
	}
	return s.now(x)
}

// end tells the connection.
func (s *story) end(c *capture.Conn) {
	s.tell(func(r *Rules) { r.Conn(c) })
}

// close ends a connection in good order, and tells it.
func (s *story) close(c *capture.Conn, ms float64, by capture.Side) {
	c.Closed, c.ClosedBy = s.mark(ms), by
	c.Last = c.Closed
	s.end(c)
}

// stall tells time that a connection lost.
func (s *story) stall(c *capture.Conn, kind capture.StallKind, sender capture.Side, from, to float64, change ...func(*capture.Stall)) {
	x := &capture.Stall{Conn: c, Kind: kind, Sender: sender, From: s.mark(from), To: s.mark(to), Tries: 1, Bytes: 100}
	for _, f := range change {
		f(x)
	}
	s.tell(func(r *Rules) { r.Stall(x) })
}

// request is GET /v1/{id}, answered by the pod, with the calls that it caused.
func (s *story) request(start, took float64, calls ...*capture.Exchange) *attribution.Request {
	return s.requestOn(s.conn(gateway, pod+":8080"), start, took, calls...)
}

func (s *story) requestOn(c *capture.Conn, start, took float64, calls ...*capture.Exchange) *attribution.Request {
	s.requests++
	s.time += time.Duration(took * float64(time.Millisecond))
	r := &attribution.Request{
		ID: s.requests, Exchange: s.http(c, start, took, "GET", "/v1/7"), Certainty: attribution.Certain, Confidence: 1, Open: 1,
		Route: attribution.Route{Protocol: capture.HTTP, Method: "GET", Pattern: "/v1/{id}"},
	}
	for _, x := range calls {
		r.Links = append(r.Links, link(x))
	}
	slices.SortStableFunc(r.Links, func(a, b attribution.Link) int { return cmp.Compare(a.Exchange.Start(), b.Exchange.Start()) })
	r.Slices = slicesOf(r)
	s.tell(func(rule *Rules) { rule.Request(r) })
	return r
}

// orphan tells a call that no request caused.
func (s *story) orphan(x *capture.Exchange) {
	l := link(x)
	s.tell(func(r *Rules) { r.Orphan(&attribution.Orphan{Exchange: x, Cause: l.Cause, Peer: l.Peer}) })
}

func link(x *capture.Exchange) attribution.Link {
	l := attribution.Link{Exchange: x, Cause: attribution.Call, Peer: x.Server().String(), Probability: 1, Certainty: attribution.Certain}
	switch {
	case x.DNS != nil:
		l.Cause = attribution.DNS
	case x.TLS != nil && x.Op == "handshake":
		l.Cause = attribution.TLS
	case x.HTTP != nil && x.HTTP.Metadata != nil:
		l.Cause = attribution.Metadata
	}
	if x.Authority != "" {
		l.Peer = x.Authority
	}
	return l
}

// slicesOf covers a request with its calls, one after the other, each begun by the
// handshake of its connection; the rest is its own.
func slicesOf(r *attribution.Request) []attribution.Slice {
	var list []attribution.Slice
	now := r.Start()
	add := func(cause attribution.Cause, to capture.Time, link int) {
		if to = min(to, r.End()); to > now {
			list = append(list, attribution.Slice{Cause: cause, From: now, To: to, Link: link})
			now = to
		}
	}
	for i, l := range r.Links {
		if c := l.Exchange.Conn; l.Exchange.Index == 0 && len(c.SYNs) > 0 {
			add(attribution.Self, c.SYNs[0].Time, -1)
			add(attribution.Connect, c.Established.Time, i)
		}
		add(attribution.Self, l.Exchange.Start(), -1)
		add(l.Cause, l.Exchange.End(), i)
	}
	add(attribution.Self, r.End(), -1)
	return list
}

// play tells a rule the story, and returns what it finds.
func (s *story) play(r Rule) []Finding {
	rules := NewRules([]Rule{r})
	for _, fact := range s.facts {
		fact(rules)
	}
	return rules.Findings(Scene{
		Requests: s.requests, Time: s.time, Config: s.config,
		Stats: capture.Stats{First: begin, Last: at(60_000), Packets: s.packet},
	})
}

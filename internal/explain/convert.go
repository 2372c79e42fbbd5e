package explain

import (
	"cmp"
	"slices"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/trap"
)

// convert puts a request into the shape of the output. Nothing of the capture's own
// facts is kept alive by it.
func convert(r *attribution.Request, parts []attribution.Part) *Request {
	out := &Request{
		ID: r.ID, Start: r.Start().Time(),
		Client: r.Client().String(), Server: r.Server().String(),
		Protocol: r.Protocol, Method: r.Route.Method, Target: r.Target, Route: r.Route.Pattern,
		Status: r.Status, Failed: r.Failed, DurationMS: milliseconds(r.Duration()),
		Link: r.Certainty, Confidence: r.Confidence, Packets: packetsOf(r.Exchange),
		Parts: make([]Part, len(parts)), Calls: []Call{}, Slices: []Slice{},
	}
	for i, p := range parts {
		out.Parts[i] = Part{Cause: p.Cause, Peer: p.Peer, MS: milliseconds(p.Duration), Calls: p.Calls}
	}
	slices.SortStableFunc(out.Parts, func(a, b Part) int { return cmp.Compare(b.MS, a.MS) })
	for i := range r.Links[:min(len(r.Links), maxCalls)] {
		out.Calls = append(out.Calls, convertCall(&r.Links[i], r.Start()))
	}
	out.CallsOmitted = len(r.Links) - len(out.Calls)
	for i := range r.Slices[:min(len(r.Slices), maxSlices)] {
		s := &r.Slices[i]
		call := s.Link
		if call >= len(out.Calls) {
			call = -1
		}
		out.Slices = append(out.Slices, Slice{
			Cause: s.Cause, Peer: s.Peer, Call: call, Packets: s.Packets,
			StartMS: milliseconds(s.From.Sub(r.Start())), MS: milliseconds(s.To.Sub(s.From)),
		})
	}
	return out
}

func convertCall(l *attribution.Link, start capture.Time) Call {
	x := l.Exchange
	return Call{
		Cause: l.Cause, Peer: l.Peer, Protocol: x.Protocol, Op: x.Op, Target: x.Target,
		Status: x.Status, Failed: x.Failed,
		StartMS: milliseconds(x.Start().Sub(start)), DurationMS: milliseconds(x.End().Sub(x.Start())),
		Link: l.Certainty, Probability: l.Probability, Stream: x.Conn.ID, Packets: packetsOf(x),
	}
}

// packetsOf are the first packet of the question and the last of the answer.
func packetsOf(x *capture.Exchange) [2]uint64 {
	last := x.Request.Last.Packet
	if x.Answered() {
		last = x.Response.Last.Packet
	}
	return [2]uint64{x.Request.First.Packet, last}
}

func convertFinding(f trap.Finding) Finding {
	packets := f.Evidence
	if packets == nil {
		packets = []uint64{}
	}
	return Finding{
		ID: f.ID, Severity: f.Severity, Title: f.Title, CostMSPerRequest: milliseconds(f.Cost),
		Evidence: Evidence{Packets: packets}, Fix: f.Fix, Reference: f.Reference, Confirmed: f.Confirmed,
	}
}

func convertStats(s *capture.Stats) Capture {
	c := Capture{
		Files: []File{}, Packets: s.Packets, Bytes: s.Bytes,
		TruncatedPackets: s.Truncated, DuplicatePackets: s.Duplicates,
		MalformedPackets: s.Malformed, UndecodedPackets: s.Undecoded,
		LostFragments: s.Fragments, BackwardsPackets: s.Backwards,
		Retransmitted: s.Retransmitted, Reordered: s.Reordered,
		MissingBytes: s.MissingBytes, UnparsedBytes: s.Unparsed,
		Connections: s.Conns, MidConnections: s.Mid, GivenUp: s.GivenUp,
		Exchanges: s.Exchanges, Unanswered: s.Unanswered, Damage: s.Damage,
	}
	if c.Exchanges == nil {
		c.Exchanges = map[string]uint64{}
	}
	if s.Packets > 0 {
		c.Start = s.First.Time()
		c.DurationS = max(s.Last.Sub(s.First), 0*time.Second).Seconds()
	}
	return c
}

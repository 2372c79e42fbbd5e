package trap

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// flood tells rules facts of which no two have a client, server, name or connection in
// common, and that each could begin a trap.
func flood(rules *Rules, from, to int) {
	for i := from; i < to; i++ {
		number := uint64(i + 1)
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 4000)
		server := netip.AddrPortFrom(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), 80)
		now := begin.Add(time.Duration(i) * time.Millisecond)
		mark := func(after time.Duration) capture.Mark { return capture.Mark{Time: now.Add(after), Packet: number} }
		name := fmt.Sprintf("name-%d.example.com", i)
		conn := &capture.Conn{
			ID: number, Transport: capture.TCP, Addr: [2]netip.AddrPort{client, server}, First: mark(0), Last: mark(time.Second),
			SYNs: []capture.Mark{mark(0), mark(time.Second)}, Exchanges: 2, Closed: mark(time.Second), Protocol: capture.HTTP,
		}
		span := capture.Span{First: mark(0), Last: mark(0)}
		late := capture.Span{First: mark(300 * time.Millisecond), Last: mark(300 * time.Millisecond)}
		all := []*capture.Exchange{
			{Conn: conn, Protocol: capture.HTTP, Request: span, Index: 1, Target: "/" + name, Authority: name, HTTP: &capture.HTTPDetail{UserAgent: "kube-probe/1", Signed: true}},
			{Conn: conn, Protocol: capture.HTTP, Request: span, Response: late, Status: 200, Target: "/" + name, HTTP: &capture.HTTPDetail{
				UserAgent: "kube-probe/1", Action: "AssumeRole", Metadata: &capture.Metadata{Kind: capture.MetadataCredentials, Provider: capture.AWSInstance, Expires: now},
			}},
			{Conn: conn, Protocol: capture.HTTP, Request: span, Target: "/", HTTP: &capture.HTTPDetail{Metadata: &capture.Metadata{Kind: capture.MetadataSession, Provider: capture.AWSInstance}}},
			{Conn: conn, Protocol: capture.DNS, Request: span, Response: late, Status: nameError, Target: name + ".cluster.local", DNS: &capture.DNSDetail{Type: "A"}},
			{Conn: conn, Protocol: capture.DNS, Request: span, Response: late, Target: name, DNS: &capture.DNSDetail{Type: "A", TTL: time.Hour, Addresses: []netip.Addr{server.Addr()}}},
			{Conn: conn, Protocol: capture.TLS, Request: span, Response: late, Op: "handshake", Authority: "sts.amazonaws.com", TLS: &capture.TLSDetail{Resumed: true}},
			{Conn: conn, Protocol: capture.GRPC, Request: span, Response: late, Authority: name, Target: "/a/b"},
		}
		request := &attribution.Request{Exchange: all[0], Route: attribution.Route{Pattern: "/" + name}}
		for j, x := range all {
			request.Links = append(request.Links, attribution.Link{Exchange: x, Cause: attribution.Call, Peer: name, Certainty: attribution.Certain})
			request.Slices = append(request.Slices, attribution.Slice{Cause: attribution.Causes()[j], From: now, To: now.Add(time.Second), Link: j})
		}
		for _, x := range all {
			rules.Exchange(x)
		}
		for kind := capture.StallTimeout; kind <= capture.StallSlowStart; kind++ {
			rules.Stall(&capture.Stall{Conn: conn, Kind: kind, From: mark(0), To: mark(time.Second), Tries: 5, Full: true, Idle: time.Minute})
		}
		rules.Request(request)
		rules.Orphan(&attribution.Orphan{Exchange: all[6], Peer: name})
		if i%2 == 0 { // others never end
			rules.Conn(conn)
		}
	}
}

// TestBounded sees that rules which have seen many do not grow with more.
func TestBounded(t *testing.T) {
	const facts = 9_000 // more than any table holds
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	rules := NewRules(All())
	empty := heap()
	flood(rules, 0, facts)
	full := heap()
	flood(rules, facts, 2*facts)
	more := heap()
	t.Logf("%d KiB with %d facts of each kind, %d KiB with twice as many", (full-empty)>>10, facts, (more-empty)>>10)
	if more-full > 1<<20 {
		t.Errorf("rules grow by %d KiB with the second %d facts of each kind", (more-full)>>10, facts)
	}
	if full-empty > 48<<20 {
		t.Errorf("rules hold %d MiB", (full-empty)>>20)
	}
	for _, f := range rules.Findings(Scene{Requests: 2 * facts, Time: time.Hour}) {
		if f.Title == "" || len(f.Evidence) > MaxEvidence {
			t.Errorf("%+v", f)
		}
	}
}

package attribution

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
)

// opened gives an exchange a connection of its own, whose handshake began and ended then.
func (w *world) opened(x *capture.Exchange, syn, established capture.Time) *capture.Exchange {
	x.Index, x.Conn.Mid = 0, false
	x.Conn.SYNs = []capture.Mark{w.mark(syn)}
	x.Conn.SYNACK = w.mark(established)
	x.Conn.Established = w.mark(established)
	return x
}

// question is one of DNS about a name, whose answer has the address that calls go to.
func (w *world) question(r *capture.Exchange, name, kind string, start, end capture.Time, found bool) *capture.Exchange {
	x := w.exchange(netip.MustParseAddrPort("10.0.0.1:3333"), netip.MustParseAddrPort("10.96.0.10:53"), [2]bool{true, false}, "", name+" "+kind, start, end)
	x.Conn.Transport, x.Protocol, x.HTTP = capture.UDP, capture.DNS, nil
	x.DNS = &capture.DNSDetail{Type: kind}
	if found {
		x.DNS.Addresses = []netip.Addr{netip.MustParseAddr("10.0.1.1")}
	}
	w.parent[x] = r
	return x
}

// lines shows slices: cause, peer, and from and to in ms after the request's start.
func lines(r *Request) []string {
	var out []string
	for _, s := range r.Slices {
		out = append(out, strings.TrimSpace(string(s.Cause)+" "+s.Peer)+" "+
			s.From.Sub(r.Start()).String()+" "+s.To.Sub(r.Start()).String())
	}
	return out
}

func TestSlices(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		make func(w *world, r *capture.Exchange)
		want []string
	}{
		{"nothing", func(*world, *capture.Exchange) {}, []string{"self 0s 100ms"}},
		{"a call", func(w *world, r *capture.Exchange) { w.call(r, "es", t0+10*ms, t0+30*ms) },
			[]string{"self 0s 10ms", "call es 10ms 30ms", "self 30ms 100ms"}},
		{"the one that ends last", func(w *world, r *capture.Exchange) {
			w.call(r, "a", t0+10*ms, t0+30*ms)
			w.call(r, "b", t0+20*ms, t0+40*ms)
			w.call(r, "c", t0+25*ms, t0+35*ms)
		}, []string{"self 0s 10ms", "call a 10ms 20ms", "call b 20ms 40ms", "self 40ms 100ms"}},
		{"a name, a handshake, a call", func(w *world, r *capture.Exchange) {
			w.question(r, "es.x.svc.cluster.local", "A", t0+5*ms, t0+6*ms, false)
			w.question(r, "es.x.cluster.local", "A", t0+6*ms, t0+8*ms, true)
			w.opened(w.call(r, "es", t0+12*ms, t0+30*ms), t0+9*ms, t0+11*ms)
		}, []string{"self 0s 5ms", "dns 10.96.0.10 5ms 6ms", "dns 10.96.0.10 6ms 8ms", "self 8ms 9ms", "connect es 9ms 11ms", "self 11ms 12ms", "call es 12ms 30ms", "self 30ms 100ms"}},
		{"opened ahead", func(w *world, r *capture.Exchange) {
			w.opened(w.call(r, "es", t0+80*ms, t0+90*ms), t0+1*ms, t0+2*ms)
		}, []string{"self 0s 80ms", "call es 80ms 90ms", "self 90ms 100ms"}},
		{"a lost SYN", func(w *world, r *capture.Exchange) {
			x := w.opened(w.call(r, "es", t0+50*ms, t0+60*ms), t0+10*ms, t0+45*ms)
			x.Conn.SYNs = append(x.Conn.SYNs, w.mark(t0+40*ms))
		}, []string{"self 0s 10ms", "retransmit es 10ms 40ms", "connect es 40ms 45ms", "self 45ms 50ms", "call es 50ms 60ms", "self 60ms 100ms"}},
		{"TLS", func(w *world, r *capture.Exchange) {
			h := w.opened(w.call(r, "api", t0+12*ms, t0+20*ms), t0+10*ms, t0+12*ms)
			h.Protocol, h.Op = capture.TLS, "handshake"
			d := w.call(r, "api", t0+21*ms, t0+40*ms)
			d.Conn, d.Index, d.Protocol, d.Op = h.Conn, 1, capture.TLS, "data"
		}, []string{"self 0s 10ms", "connect api:80 10ms 12ms", "tls api:80 12ms 20ms", "self 20ms 21ms", "call api:80 21ms 40ms", "self 40ms 100ms"}},
		{"metadata", func(w *world, r *capture.Exchange) {
			x := w.call(r, "169.254.169.254", t0+10*ms, t0+20*ms)
			x.Conn.Addr[capture.Server] = netip.MustParseAddrPort("169.254.169.254:80")
			x.HTTP = &capture.HTTPDetail{Metadata: &capture.Metadata{}}
		}, []string{"self 0s 10ms", "metadata 169.254.169.254 10ms 20ms", "self 20ms 100ms"}},
		{"the request arrives slowly", func(w *world, r *capture.Exchange) {
			r.Request.Last = w.mark(t0 + 40*ms)
			w.call(r, "es", t0+30*ms, t0+35*ms)
		}, []string{"client-network 0s 30ms", "call es 30ms 35ms", "client-network 35ms 40ms", "self 40ms 100ms"}},
		{"100-continue", func(w *world, r *capture.Exchange) {
			r.HTTP = &capture.HTTPDetail{Continue: true, Interim: w.mark(t0 + 20*ms)}
			r.Request.Last = w.mark(t0 + 40*ms)
		}, []string{"self 0s 20ms", "client-network 20ms 40ms", "self 40ms 100ms"}},
		{"outlives the request", func(w *world, r *capture.Exchange) { w.call(r, "es", t0+90*ms, t0+130*ms) },
			[]string{"self 0s 90ms", "call es 90ms 100ms"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(1)
			r := w.request("/", t0, t0+100*ms)
			tt.make(w, r)
			w.request("/", t0+9000*ms, t0+9001*ms)
			a := w.tell(Options{})
			if len(a.requests) != 2 || len(a.orphans) != 0 {
				t.Fatalf("%d requests, %d orphans, want 2 and none", len(a.requests), len(a.orphans))
			}
			if diff := cmp.Diff(tt.want, lines(a.requests[0])); diff != "" {
				t.Errorf("slices (-want +got):\n%s", diff)
			}
			checkCover(t, a)
		})
	}
}

// checkCover checks that slices leave no gap, do not overlap, and add up.
func checkCover(t *testing.T, a *answer) {
	t.Helper()
	for _, r := range a.requests {
		at := r.Start()
		for _, s := range r.Slices {
			if s.From != at || s.To <= s.From {
				t.Fatalf("request %d: a slice from %d to %d where %d was reached", r.ID, s.From, s.To, at)
			}
			at = s.To
		}
		if at != r.End() {
			t.Fatalf("request %d: slices end %v before it", r.ID, r.End().Sub(at))
		}
		var sum time.Duration
		for _, p := range r.Parts() {
			sum += p.Duration
		}
		if sum != r.Duration() {
			t.Fatalf("request %d: parts add up to %v of %v", r.ID, sum, r.Duration())
		}
	}
}

func TestStalls(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	r := w.request("/", t0, t0+100*ms)
	c := w.call(r, "es", t0+10*ms, t0+60*ms)
	a := &answer{}
	l := New(Options{}, a)
	stall := func(conn *capture.Conn, kind capture.StallKind, sender capture.Side, from, to capture.Time) {
		l.Stall(&capture.Stall{Conn: conn, Kind: kind, Sender: sender, From: w.mark(t0 + from*ms), To: w.mark(t0 + to*ms)})
	}
	stall(c.Conn, capture.StallTimeout, capture.Client, 20, 30)
	stall(c.Conn, capture.StallTimeout, capture.Client, 30, 50)
	stall(c.Conn, capture.StallDelayedACK, capture.Client, 50, 55)
	stall(c.Conn, capture.StallTimeout, capture.Client, 70, 80) // another exchange's
	stall(r.Conn, capture.StallZeroWindow, capture.Server, 80, 90)
	stall(r.Conn, capture.StallFast, capture.Server, 95, 120)
	l.Exchange(c)
	l.Exchange(r)
	l.Finish()
	want := []string{"self 0s 10ms", "call es 10ms 20ms", "retransmit es 20ms 30ms", "retransmit es 30ms 50ms",
		"call es 50ms 60ms", "self 60ms 80ms", "client-network 80ms 90ms", "self 90ms 95ms", "retransmit client 95ms 100ms"}
	if diff := cmp.Diff(want, lines(a.requests[0])); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	parts := []Part{
		{Retransmit, "es", 30 * time.Millisecond, 2}, {Retransmit, "client", 5 * time.Millisecond, 1},
		{Call, "es", 20 * time.Millisecond, 1}, {ClientNetwork, "", 10 * time.Millisecond, 0}, {Self, "", 35 * time.Millisecond, 0},
	}
	if diff := cmp.Diff(parts, a.requests[0].Parts()); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

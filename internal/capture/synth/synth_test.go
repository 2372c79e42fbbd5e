package synth

import (
	"bytes"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

func generate(t testing.TB, p Plan) *Capture {
	t.Helper()
	c, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// busy is a plan with something of everything.
func busy(requests int) Plan {
	p := Chain(2, requests)
	p.RoundTrip = 500 * time.Microsecond
	call := &p.Routes[0].Steps[1].Call
	call.Fresh, call.Resolve, call.ResolveTook, call.Search = true, true, Gamma(time.Millisecond, 3), []string{"shop.svc.cluster.local", "svc.cluster.local"}
	p.Routes[0].Steps[2].Skip = 0.3
	p.Background = []Background{{Every: 20 * time.Millisecond, Call: Call{Peer: netip.MustParseAddrPort("10.3.0.1:80"), Host: "agent", Method: "POST", Path: "/beat", Took: Constantly(time.Millisecond), Sent: 3000}}}
	p.Loss, p.Doubled, p.Missed, p.Snap = 0.02, 0.05, 0.001, 400
	return p
}

func TestSamePlanSameCapture(t *testing.T) {
	t.Parallel()
	var files [2]bytes.Buffer
	for i := range files {
		if _, err := generate(t, busy(300)).WriteTo(&files[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
		t.Error("two captures of one plan differ")
	}
}

func TestTruth(t *testing.T) {
	t.Parallel()
	for _, open := range []float64{0.25, 2, 10} {
		c := generate(t, Chain(open, 4000))
		if len(c.Truth.Requests) != 4000 {
			t.Fatalf("%d requests ended, want 4000", len(c.Truth.Requests))
		}
		var busy time.Duration
		first, last := c.packets[0].Time, capture.Time(0)
		for _, r := range c.Truth.Requests {
			busy += r.End.Sub(r.Start)
			last = max(last, r.End)
			if got := c.packets[r.Packet-1]; got.Time != r.Start || !bytes.Contains(got.Data, []byte("GET /v1/items/")) {
				t.Fatalf("packet %d at %v does not begin the request of %v", r.Packet, got.Time, r.Start)
			}
			var calls []int
			for _, call := range r.Calls {
				if call.Cause == Called {
					calls = append(calls, call.Step)
				}
				if call.From < r.Start || call.To > r.End || call.To <= call.From {
					t.Fatalf("a call from %v to %v is not in its request, %v to %v", call.From, call.To, r.Start, r.End)
				}
			}
			if !slices.Equal(calls, []int{0, 1, 2}) {
				t.Fatalf("steps %v were called, want each in turn", calls)
			}
		}
		if got := float64(busy) / float64(last.Sub(first)); math.Abs(got/open-1) > 0.1 {
			t.Errorf("%.2f requests are open at once, want %v", got, open)
		}
	}
}

func TestGamma(t *testing.T) {
	t.Parallel()
	for _, shape := range []float64{0.5, 1, 4} {
		s := newSimulation(Chain(1, 1), nil, nil)
		d := Gamma(time.Second, shape)
		const n = 200_000
		var sum, squares float64
		for range n {
			x := d.draw(s.rand).Seconds()
			sum += x
			squares += x * x
		}
		mean := sum / n
		variance := squares/n - mean*mean
		if math.Abs(mean-1) > 0.02 || math.Abs(variance*shape-1) > 0.05 {
			t.Errorf("shape %v: mean %.3f and variance %.3f, want 1 and %.3f", shape, mean, variance, 1/shape)
		}
	}
}

func TestImpossiblePlans(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Plan{
		"no requests": {Open: 1, Routes: []Route{{}}},
		"no routes":   {Open: 1, Requests: 1},
		"never open":  {Requests: 1, Routes: []Route{{Finish: Constantly(1)}}},
		"no time":     {Open: 1, Requests: 1, Routes: []Route{{}}},
	} {
		if _, err := New(p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Wireshark reads what is written, on each link type, and finds nothing broken in it.
func TestWiresharkReadsIt(t *testing.T) {
	t.Parallel()
	needTshark(t)
	for _, link := range []capture.LinkType{capture.LinkSLL2, capture.LinkEthernet, capture.LinkRaw} {
		p := busy(100)
		p.Link, p.Loss, p.Doubled, p.Missed, p.Snap = link, 0, 0, 0, 0
		c := generate(t, p)
		file := written(t, c)
		count := func(filter string) int { return len(tshark(t, file, filter, "frame.number")) }
		want := 0
		for _, r := range c.Truth.Requests {
			for _, call := range r.Calls {
				if call.Cause == DNS {
					want++
				}
			}
		}
		if got := count("dns.time"); got != want {
			t.Errorf("link type %s: %d DNS answers, want %d", strconv.Itoa(int(link)), got, want)
		}
		if got := count("http.time && http.response_for.uri contains \"/v1/items\""); got != 100 {
			t.Errorf("link type %d: %d answered requests, want 100", link, got)
		}
		if got := count("_ws.malformed || tcp.analysis.flags"); got > 0 {
			t.Errorf("link type %d: %d packets with something wrong", link, got)
		}
	}
}

// What is closed by TLS, and HTTP/2, is what it says, too.
func TestWiresharkReadsScripts(t *testing.T) {
	t.Parallel()
	needTshark(t)
	s := NewScript()
	own := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(ServiceAddr.Addr(), port) }
	first, second := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	s.Ask(0, time.Millisecond, own(42000), 1, "cart.example", false, first, second)
	closed := s.Dial(time.Second, time.Millisecond, own(42001), netip.AddrPortFrom(first, 443))
	closed.Secure(2*time.Second, time.Millisecond, "cart.example")
	closed.Send(3*time.Second, capture.Client, Sealed(100))
	clear := s.Dial(4*time.Second, time.Millisecond, own(42002), netip.AddrPortFrom(first, 50051))
	clear.Send(5*time.Second, capture.Client, OpenHTTP2())
	for i := range uint32(3) {
		at := time.Duration(6+i) * time.Second
		clear.Send(at, capture.Client, CallGRPC(2*i+1, "cart.example:50051", "/shop.Cart/Get"))
		clear.Send(at+time.Millisecond, capture.Server, AnswerGRPC(2*i+1))
	}
	file := written(t, s.Capture())
	got := tshark(t, file, "dns.a || tls || http2.type == 1 || _ws.malformed || tcp.analysis.flags",
		"dns.a", "tls.handshake.extensions_server_name", "tls.handshake.extensions.supported_version", "tls.record.opaque_type",
		"http2.streamid", "http2.headers.authority", "http2.headers.path", "http2.headers.status")
	want := []string{
		"10.0.0.1,10.0.0.2|||||||",
		"|cart.example|0x0304|||||", "||0x0304|||||", "|||23||||", "|||23||||", "|||23||||",
		"||||1|cart.example:50051|/shop.Cart/Get|", "||||1|||200",
		"||||3|cart.example:50051|/shop.Cart/Get|", "||||3|||200",
		"||||5|cart.example:50051|/shop.Cart/Get|", "||||5|||200",
	}
	if !slices.Equal(got, want) {
		t.Errorf("read\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func needTshark(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func written(t *testing.T, c *Capture) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "capture.pcap")
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// tshark is what Wireshark says of fields, a line for each packet that a filter finds.
func tshark(t *testing.T, file, filter string, fields ...string) []string {
	t.Helper()
	args := []string{"-r", file, "-d", "tcp.port==50051,http2", "-Y", filter, "-T", "fields", "-E", "separator=|"}
	for _, field := range fields {
		args = append(args, "-e", field)
	}
	out, err := exec.CommandContext(t.Context(), "tshark", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

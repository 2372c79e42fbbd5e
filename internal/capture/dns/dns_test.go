package dns

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
)

// C and S are what client and server say.
var C, S = capturetest.C, capturetest.S

// ask is a question.
func ask(id uint16, name string, kind uint16) *dns.Msg {
	m := new(dns.Msg).SetQuestion(name, kind)
	m.Id = id
	return m
}

// reply answers a question with records, as in a zone file.
func reply(q *dns.Msg, records ...string) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable, m.Compress = true, true
	for _, r := range records {
		rr, err := dns.NewRR(r)
		if err != nil {
			panic(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	return m
}

func pack(m *dns.Msg) string {
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return string(b)
}

// over puts a message's length before it.
func over(message string) string {
	return string([]byte{byte(len(message) >> 8), byte(len(message))}) + message
}

func TestExchanges(t *testing.T) {
	t.Parallel()
	a, aaaa := ask(7, "Web.Example.COM.", dns.TypeA), ask(8, "web.example.com.", dns.TypeAAAA)
	refused := new(dns.Msg).SetRcode(a, dns.RcodeRefused)
	bare := reply(a)
	bare.Question, bare.Rcode = nil, dns.RcodeFormatError
	for name, test := range map[string]struct {
		said []capturetest.Said
		want []string
		lost int
	}{
		"answered":     {[]capturetest.Said{C(pack(a)), S(pack(reply(a)))}, []string{"1-1 2-2 A [web.example.com]"}, 0},
		"pair":         {[]capturetest.Said{C(pack(a)), C(pack(aaaa)), S(pack(reply(aaaa))), S(pack(reply(a)))}, []string{"2-2 3-3 AAAA [web.example.com]", "1-1 4-4 A [web.example.com]"}, 0},
		"unanswered":   {[]capturetest.Said{C(pack(a)), C(pack(aaaa)), S(pack(reply(aaaa)))}, []string{"2-2 3-3 AAAA [web.example.com]", "1-1 0-0 A [web.example.com]"}, 0},
		"same ID":      {[]capturetest.Said{C(pack(ask(7, "b.", dns.TypeA))), C(pack(a)), S(pack(reply(a)))}, []string{"2-2 3-3 A [web.example.com]", "1-1 0-0 A [b]"}, 0},
		"another type": {[]capturetest.Said{C(pack(a)), S(pack(reply(ask(7, "web.example.com.", dns.TypeMX))))}, []string{"1-1 0-0 A [web.example.com]"}, len(pack(reply(ask(7, "web.example.com.", dns.TypeMX))))},
		"no question":  {[]capturetest.Said{S(pack(reply(a)))}, nil, len(pack(reply(a)))},
		"refused":      {[]capturetest.Said{C(pack(a)), S(pack(refused))}, []string{"1-1 2-2 A [web.example.com] status=5 failed"}, 0},
		"bare refusal": {[]capturetest.Said{C(pack(a)), S(pack(bare))}, []string{"1-1 2-2 A [web.example.com] status=1 failed"}, 0},
		"NXDOMAIN":     {[]capturetest.Said{C(pack(a)), S(pack(new(dns.Msg).SetRcode(a, dns.RcodeNameError)))}, []string{"1-1 2-2 A [web.example.com] status=3"}, 0},
		"root":         {[]capturetest.Said{C(pack(ask(1, ".", dns.TypeNS)))}, []string{"1-1 0-0 NS [.]"}, 0},
		"odd type":     {[]capturetest.Said{C(pack(ask(1, "a.", 65400)))}, []string{"1-1 0-0 TYPE65400 [a]"}, 0},
		"odd name":     {[]capturetest.Said{C(pack(ask(1, `a\.b\007.c.`, dns.TypeTXT)))}, []string{`1-1 0-0 TXT [a\.b\007.c]`}, 0},
		"wrong side":   {[]capturetest.Said{S(pack(a)), C(pack(reply(a)))}, nil, len(pack(a)) + len(pack(reply(a)))},
		"short":        {[]capturetest.Said{C("\x00\x07\x01"), C(pack(a)[:20])}, nil, 23},
		"answer cut":   {[]capturetest.Said{C(pack(a)), S(pack(reply(a, "web.example.com. 5 A 10.0.0.1"))[:40])}, []string{"1-1 2-2 A [web.example.com]"}, 0},
		"asked after the answer": {
			[]capturetest.Said{C(pack(a)), S(pack(reply(a))), C(pack(a)), S(pack(reply(a)))},
			[]string{"1-1 2-2 A [web.example.com]", "3-3 4-4 A [web.example.com]"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(how string, got capturetest.Result, lost int) {
				if diff := cmp.Diff(test.want, capturetest.Summaries(got.Exchanges)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
				if got.Lost != uint64(lost) {
					t.Errorf("%s: lost %d bytes; want %d", how, got.Lost, lost)
				}
			}
			check("UDP", capturetest.Play(Protocol(), test.said...), test.lost)
			if name == "short" { // over TCP the length says that there is no message
				return
			}
			var stream []capturetest.Said
			for _, s := range test.said {
				s.Data = over(s.Data)
				stream = append(stream, s)
			}
			check("TCP", capturetest.Play(OverTCP(), stream...), test.lost)
			capturetest.AnySegmentation(t, OverTCP(), stream...)
		})
	}
}

func TestDetail(t *testing.T) {
	t.Parallel()
	q := ask(0xbeef, "web.example.com.", dns.TypeA)
	negative := func(soa string) *dns.Msg {
		m := new(dns.Msg).SetRcode(q, dns.RcodeNameError)
		m.Ns = reply(q, soa).Answer
		return m
	}
	truncated := reply(q)
	truncated.Truncated = true
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("web.example.com. 9 A 10.0.0.%d", i))
	}
	for name, test := range map[string]struct {
		answer *dns.Msg
		want   capture.DNSDetail
	}{
		"addresses":      {reply(q, "web.example.com. 300 CNAME x.example.com.", "x.example.com. 20 A 10.0.0.1", "x.example.com. 30 AAAA fd00::1"), capture.DNSDetail{TTL: 20 * time.Second, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}}},
		"not for long":   {reply(q, "web.example.com. 0 A 10.0.0.1"), capture.DNSDetail{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}},
		"absence":        {negative("example.com. 3600 SOA ns. h. 1 2 3 4 30"), capture.DNSDetail{TTL: 30 * time.Second}},
		"shorter SOA":    {negative("example.com. 10 SOA ns. h. 1 2 3 4 30"), capture.DNSDetail{TTL: 10 * time.Second}},
		"truncated":      {truncated, capture.DNSDetail{Truncated: true}},
		"other class":    {reply(q, "web.example.com. 9 CH A 10.0.0.1"), capture.DNSDetail{TTL: 9 * time.Second}},
		"many addresses": {reply(q, many...), capture.DNSDetail{TTL: 9 * time.Second, Addresses: firstAddresses(capture.MaxAddresses)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := capturetest.Play(Protocol(), C(pack(q)), S(pack(test.answer)))
			if len(got.Exchanges) != 1 {
				t.Fatalf("%d exchanges", len(got.Exchanges))
			}
			test.want.ID, test.want.Type = 0xbeef, "A"
			if diff := cmp.Diff(&test.want, got.Exchanges[0].DNS, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("detail (-want +got):\n%s", diff)
			}
		})
	}
}

func firstAddresses(n byte) (all []netip.Addr) {
	for i := range n {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, 0, i}))
	}
	return all
}

// at is a question or an answer at a moment.
func at(d time.Duration, side capture.Side, m *dns.Msg) capture.Chunk {
	packet := uint64(d/time.Millisecond) + 1
	return capture.Chunk{Side: side, Mark: capture.Mark{Time: capture.Time(time.Hour + d), Packet: packet}, Data: []byte(pack(m))}
}

func TestRepetitions(t *testing.T) {
	t.Parallel()
	q := ask(1, "a.", dns.TypeA)
	got := capturetest.PlayChunks(Protocol(), &capture.Conn{}, []capture.Chunk{
		at(0, capture.Client, q), at(5*time.Second, capture.Client, q), at(10*time.Second, capture.Client, q),
		at(11*time.Second, capture.Server, reply(q)),
		at(20*time.Second, capture.Client, q), at(81*time.Second, capture.Client, q),
	})
	want := []string{"1-1 11001-11001 A [a]", "20001-20001 0-0 A [a]", "81001-81001 0-0 A [a]"}
	if diff := cmp.Diff(want, capturetest.Summaries(got.Exchanges)); diff != "" {
		t.Fatalf("exchanges (-want +got):\n%s", diff)
	}
	if r := got.Exchanges[0].DNS.Resent; len(r) != 2 || r[0].Packet != 5001 || r[1].Packet != 10001 {
		t.Errorf("resent %v; want packets 5001 and 10001", r)
	}
	var flood []capture.Chunk
	for i := range 100 {
		flood = append(flood, at(time.Duration(i)*time.Millisecond, capture.Client, q))
	}
	if got := capturetest.PlayChunks(Protocol(), &capture.Conn{}, flood); len(got.Exchanges[0].DNS.Resent) != maxResent {
		t.Errorf("%d repetitions are kept of 99; want %d", len(got.Exchanges[0].DNS.Resent), maxResent)
	}
}

// TestFullTable asks more than a socket's table holds: the oldest are given up at once.
func TestFullTable(t *testing.T) {
	t.Parallel()
	var told []uint16
	p := Protocol().New(&capture.Conn{}, func(x *capture.Exchange) { told = append(told, x.DNS.ID) })
	for i := range uint16(maxOpen + 3) {
		p.Chunk(at(time.Duration(i)*time.Millisecond, capture.Client, ask(i, "a.", dns.TypeA)))
	}
	if diff := cmp.Diff([]uint16{0, 1, 2}, told); diff != "" {
		t.Errorf("told before the end (-want +got):\n%s", diff)
	}
	p.Close()
	if len(told) != maxOpen+3 {
		t.Errorf("told %d of %d", len(told), maxOpen+3)
	}
}

func TestLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("a", 61)+".", 4)
	escapes := strings.Repeat(strings.Repeat(`\001`, 61)+".", 4)
	for _, name := range []string{long, escapes} {
		q := ask(1, name, dns.TypeA)
		got := capturetest.Play(Protocol(), C(pack(q)), S(pack(reply(q)))).Exchanges
		want := strings.TrimSuffix(name, ".")
		want = want[:min(len(want), capture.MaxText)]
		if len(got) != 1 || got[0].Target != want || !got[0].Answered() {
			t.Errorf("%v; want an answered %q", capturetest.Summaries(got), want)
		}
	}
}

// TestMissing loses bytes of a TCP stream.
func TestMissing(t *testing.T) {
	t.Parallel()
	a, b := ask(1, "a.", dns.TypeA), ask(2, "b.", dns.TypeA)
	answer := over(pack(reply(a, "a. 1 A 10.0.0.1")))
	got := capturetest.Play(OverTCP(),
		C(over(pack(a))), S(answer[:30]), capturetest.Gap(len(answer)-30, S("")), // cut by the snap length
		C(over(pack(b))), capturetest.Gap(100, S(over(pack(reply(b))))),
	)
	want := []string{"1-1 2-3 A [a]", "4-4 5-5 A [b]"}
	if diff := cmp.Diff(want, capturetest.Summaries(got.Exchanges)); diff != "" || got.Lost != 0 {
		t.Errorf("lost %d; (-want +got):\n%s", got.Lost, diff)
	}
}

func TestRecognise(t *testing.T) {
	t.Parallel()
	q := ask(1, "web.example.com.", dns.TypeA)
	edns := ask(1, "web.example.com.", dns.TypeHTTPS)
	edns.SetEdns0(1232, true)
	iterative := ask(1, "web.example.com.", dns.TypeA)
	iterative.RecursionDesired = false
	netbios := ask(1, "web.example.com.", nbName)
	mdnsAnswer := reply(q, "web.example.com. 1 A 10.0.0.1")
	mdnsAnswer.Question, mdnsAnswer.Id = nil, 0
	for name, test := range map[string]struct {
		data string
		want capture.Recognition
	}{
		"question":       {pack(q), capture.ByClient},
		"with options":   {pack(edns), capture.ByClient},
		"long name":      {pack(ask(1, strings.Repeat("a", 60)+".b.", dns.TypeA)), capture.ByClient},
		"answer":         {pack(reply(q, "web.example.com. 1 A 10.0.0.1")), capture.ByServer},
		"iterative":      {pack(iterative), capture.Perhaps},
		"NetBIOS":        {pack(netbios), capture.NotIt},
		"mDNS answer":    {pack(mdnsAnswer), capture.NotIt},
		"HTTP":           {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", capture.NotIt},
		"TLS":            {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", capture.NotIt},
		"QUIC":           {"\xc3\x00\x00\x00\x01\x08\x11\x22\x33\x44\x55\x66\x77\x88\x00\x00", capture.NotIt},
		"NTP":            {"\x23\x00\x06\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", capture.NotIt},
		"zeros":          {strings.Repeat("\x00", 64), capture.NotIt},
		"another opcode": {"\x00\x01\x79\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01", capture.NotIt},
	} {
		first := func(s string) []byte { return []byte(s[:min(len(s), capture.RecogniseBytes)]) }
		if got := Protocol().Recognise(first(test.data)); got != test.want {
			t.Errorf("%s: %d over UDP; want %d", name, got, test.want)
		}
		if got := OverTCP().Recognise(first(over(test.data))); got != test.want {
			t.Errorf("%s: %d over TCP; want %d", name, got, test.want)
		}
	}
	for data, want := range map[string]capture.Recognition{
		"": capture.Perhaps, "\x00\x21": capture.Perhaps, "\x00\x05": capture.NotIt, over(pack(q))[:10]: capture.Perhaps,
	} {
		if got := OverTCP().Recognise([]byte(data)); got != want {
			t.Errorf("%q: %d over TCP; want %d", data, got, want)
		}
	}
}

package dns

import (
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/net/dns/dnsmessage"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
)

// FuzzParser plays any bytes over UDP and TCP.
func FuzzParser(f *testing.F) {
	a, b := ask(7, "web.example.com.", dns.TypeA), ask(8, "web.example.com.", dns.TypeAAAA)
	f.Add(capturetest.Script(C(pack(a)), C(pack(b)), S(pack(reply(a, "web.example.com. 5 A 10.0.0.1"))), S(pack(reply(b)))))
	f.Add(capturetest.Script(C(over(pack(a))), S(over(pack(reply(a, "web.example.com. 5 A 10.0.0.1")))), C(over(pack(b)))))
	f.Fuzz(func(t *testing.T, script []byte) {
		chunks := capturetest.Fuzzed(script)
		for _, p := range []capture.Protocol{Protocol(), OverTCP()} {
			capturetest.Check(t, capturetest.PlayChunks(p, &capture.Conn{}, chunks), chunks)
			capturetest.Check(t, capturetest.PlayChunks(p, &capture.Conn{Mid: true}, chunks), chunks)
		}
	})
}

// FuzzMessage reads what golang.org/x/net reads, to the same effect.
func FuzzMessage(f *testing.F) {
	q := ask(7, "web.example.com.", dns.TypeA)
	f.Add([]byte(pack(reply(q, "web.example.com. 5 A 10.0.0.1", "web.example.com. 4 CNAME b."))))
	f.Add([]byte(pack(reply(q))))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p dnsmessage.Parser
		header, err := p.Start(data)
		if err != nil || header.OpCode != opcodeQuery {
			return
		}
		questions, err := p.AllQuestions()
		if err != nil || len(questions) != 1 {
			return
		}
		var m message
		if !m.read(data) {
			if wire := questions[0].Name.Length; data[12] < 0xc0 && !pointed(data) && wire < 250 {
				t.Fatalf("%v is no message", questions[0])
			}
			return
		}
		if m.kind != uint16(questions[0].Type) || m.rcode() != int(header.RCode) || m.response() != header.Response {
			t.Errorf("%+v; want %+v %+v", m, header, questions[0])
		}
		var d capture.DNSDetail
		m.records(data, &d)
		answers, err := p.AllAnswers()
		if err != nil {
			return
		}
		addresses := 0
		for _, r := range answers {
			switch r.Body.(type) {
			case *dnsmessage.AResource, *dnsmessage.AAAAResource:
				if r.Header.Class == dnsmessage.ClassINET {
					addresses++
				}
			}
		}
		if len(d.Addresses) != min(addresses, capture.MaxAddresses) {
			t.Errorf("%d addresses; want %d", len(d.Addresses), addresses)
		}
	})
}

// pointed says that the question's name refers to another place.
func pointed(data []byte) bool {
	for at := headerLen; at < len(data) && data[at] != 0; at += 1 + int(data[at]) {
		if data[at] > 63 {
			return true
		}
	}
	return false
}

func BenchmarkExchange(b *testing.B) {
	q := ask(7, "orders.shop.svc.cluster.local.", dns.TypeA)
	question, answer := []byte(pack(q)), []byte(pack(reply(q, "orders.shop.svc.cluster.local. 5 A 10.0.0.1")))
	told := 0
	p := Protocol()
	mark := capturetest.Mark(1)
	b.ReportAllocs()
	for b.Loop() {
		// A resolver's socket carries one exchange, or two.
		parser := p.New(nil, func(*capture.Exchange) { told++ })
		parser.Chunk(capture.Chunk{Side: capture.Client, Mark: mark, Data: question})
		parser.Chunk(capture.Chunk{Side: capture.Server, Mark: mark, Data: answer})
		parser.Close()
	}
	if told != b.N {
		b.Fatalf("%d of %d exchanges", told, b.N)
	}
}

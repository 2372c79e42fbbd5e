package http1

import (
	"slices"
	"strings"
	"testing"

	"taper.dev/taper/internal/capture"
	ct "taper.dev/taper/internal/capture/capturetest"
)

// planted are secrets in all places of a conversation that have some.
var planted = []ct.Said{
	ct.C("POST http://user:sEcReT-1@h/a/eyJhbGciOiJIUzI1NiJ9.sEcReT-2.sig-0123456789?key=sEcReT-3#sEcReT-4 HTTP/1.1\r\n" +
		"Host: h\r\nAuthorization: AWS4-HMAC-SHA256 Credential=sEcReT-5\r\nCookie: s=sEcReT-6\r\nX-Api-Key: sEcReT-7\r\n" +
		"X-Request-Id: sEcReT-8\r\nb3: 80f198ee56343ba864fe8b2a57d3eff7-sEcReT-9\r\nContent-Type: application/x-www-form-urlencoded\r\n" +
		"Content-Length: 50\r\n\r\nAction=sEcReT10&Version=2011-06-15&p=sEcReT-11----"),
	ct.S("HTTP/1.1 200 sEcReT-12\r\nSet-Cookie: sEcReT-13\r\nTransfer-Encoding: chunked\r\n\r\n9;sEcReT-14\r\nsEcReT-15\r\n0\r\nTrailer: sEcReT-16\r\n\r\n"),
	ct.C("GET /latest/meta-data/iam/security-credentials/role HTTP/1.1\r\nHost: 169.254.169.254\r\nX-aws-ec2-metadata-token: sEcReT-17\r\nUser-Agent: aws\r\n\r\n"),
	ct.S("HTTP/1.1 200 OK\r\nContent-Length: 130\r\n\r\n", `{"Code":"Success","AccessKeyId":"sEcReT-18","SecretAccessKey":"sEcReT-19",`, `"Token":"sEcReT-20","Expiration":"2030-01-01T00:00:00Z"}`),
	ct.C("GET /v2/credentials/sEcReT-21 HTTP/1.1\r\n\r\n"),
	ct.S("HTTP/1.1 500 sEcReT-22\r\nContent-Length: 9\r\n\r\nsEcReT-23"),
	ct.C("CONNECT user:sEcReT-24@h:443 HTTP/1.1\r\nProxy-Authorization: Basic sEcReT-25\r\n\r\n"),
	ct.S("HTTP/1.1 200 OK\r\n\r\n"),
}

// TestSecrets plants secrets everywhere; none may be told, not even of a conversation that
// is cut anywhere.
func TestSecrets(t *testing.T) {
	t.Parallel()
	p := Protocol()
	whole := ct.PlayChunks(p, withEnds(capture.Conn{}), ct.Chunks(planted))
	if len(whole.Exchanges) != 4 || whole.Lost != 0 {
		t.Fatalf("%v, lost %d", shorts(whole.Exchanges), whole.Lost)
	}
	ct.NoSecret(t, whole, "sEcReT-")
	if m := whole.Exchanges[1].HTTP.Metadata; m == nil || !m.Token || m.Expires.Time().Year() != 2030 {
		t.Errorf("metadata call: %+v", m)
	}
	for i, said := range planted {
		for cut := 0; cut < len(said.Data); cut += 2 {
			some := slices.Clone(planted[:i+1])
			some[i].Data = said.Data[:cut]
			some = append(some, ct.Gap(len(said.Data)-cut, ct.Said{Side: said.Side}))
			some = append(some, planted[i+1:]...)
			ct.NoSecret(t, ct.PlayChunks(p, withEnds(capture.Conn{}), ct.Chunks(some)), "sEcReT-")
		}
	}
}

// FuzzParser sees that any bytes are read without panic, that what is told keeps the
// rules, and that another segmentation of whole messages tells the same.
func FuzzParser(f *testing.F) {
	f.Add(ct.Script(planted...))
	for _, text := range []string{get, ok, usualRequest, usualResponse} {
		f.Add(ct.Script(ct.C(text), ct.S(ok), ct.C(text), ct.S("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")))
	}
	f.Add(ct.Script(ct.C("PUT /u HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"), ct.S("HTTP/1.1 100 Continue\r\n\r\n"), ct.C("abc"), ct.S("HTTP/1.0 200 OK\r\n\r\nabc")))
	f.Add(ct.Script(ct.C("GET /ws HTTP/1.1\r\nUpgrade: h2c\r\n\r\n"), ct.S("HTTP/1.1 101 Sw\r\n\r\nx")))
	p := Protocol()
	f.Fuzz(func(t *testing.T, script []byte) {
		chunks := ct.Fuzzed(script)
		for _, conn := range []capture.Conn{{}, {Mid: true}, {Closed: ct.Mark(1 << 20), ClosedBy: capture.Server}} {
			check(t, ct.PlayChunks(p, withEnds(conn), chunks), chunks)
		}
		p.Recognise(script[:min(len(script), capture.RecogniseBytes)])
	})
}

// check fails if what was told breaks a rule that holds for any bytes.
func check(t *testing.T, r ct.Result, chunks []capture.Chunk) {
	t.Helper()
	var bytes, missing uint64
	for _, c := range chunks {
		bytes += uint64(len(c.Data))
		missing += uint64(c.Missing)
	}
	if r.Lost > bytes {
		t.Errorf("lost %d of %d bytes", r.Lost, bytes)
	}
	var spans int64
	for _, x := range r.Exchanges {
		spans += x.Request.Bytes + x.Response.Bytes
		switch {
		case !x.Request.First.Seen() || !x.Request.Last.Seen():
			t.Errorf("%s has no request", short(x))
		case x.Response.Last.Seen() && !x.Response.First.Seen():
			t.Errorf("%s has half a response", short(x))
		case x.Answered() && (x.Status < 100 || x.Response.Last.Packet < x.Response.First.Packet):
			t.Errorf("%s has no proper response", short(x))
		case x.Request.Last.Packet < x.Request.First.Packet:
			t.Errorf("%s runs backwards", short(x))
		case strings.ContainsAny(x.Target, "?;#"):
			t.Errorf("%s has a query", short(x))
		}
		for _, text := range []string{x.Op, x.Target, x.Authority, x.HTTP.UserAgent, x.HTTP.Action} {
			if len(text) > capture.MaxText {
				t.Errorf("%q is long", text)
			}
		}
	}
	if spans > int64(bytes+missing) {
		t.Errorf("messages have %d bytes of %d", spans, bytes+missing)
	}
}

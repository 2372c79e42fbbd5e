package tls

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
)

// C and S are what client and server say.
var C, S, gap = capturetest.C, capturetest.S, capturetest.Gap

// tape is what was said over a connection.
type tape struct {
	mu   sync.Mutex
	said []capturetest.Said
}

// taped is one side's end of a connection.
type taped struct {
	net.Conn
	side capture.Side
	tape *tape
}

func (c taped) Write(b []byte) (int, error) {
	c.tape.mu.Lock()
	c.tape.said = append(c.tape.said, capturetest.Said{Side: c.side, Data: string(b)})
	c.tape.mu.Unlock()
	return c.Conn.Write(b)
}

var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "planted-certificate"},
		DNSNames: []string{"web.example.com"}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// serverConfig and clientConfig speak one version.
func serverConfig(version uint16) *tls.Config {
	return &tls.Config{MinVersion: version, MaxVersion: version, Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"http/1.1"}}
}

func clientConfig(version uint16) *tls.Config {
	return &tls.Config{MinVersion: version, MaxVersion: version, ServerName: "Web.Example.COM", InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
}

// talk has a client ask a server so many times, and returns what was said. Failures to
// shake hands are what some tests are about.
func talk(t *testing.T, server, client *tls.Config, times int) []capturetest.Said {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tape := &tape{}
	var wait sync.WaitGroup
	wait.Go(func() {
		plain, err := l.Accept()
		if err != nil {
			return
		}
		conn := tls.Server(taped{plain, capture.Server, tape}, server)
		defer conn.Close()
		question := make([]byte, 100)
		for {
			if _, err := io.ReadFull(conn, question); err != nil {
				return
			}
			conn.Write(bytes.Repeat([]byte("planted-answer"), 3000))
		}
	})
	plain, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(taped{plain, capture.Client, tape}, client)
	for range times {
		if _, err := conn.Write(bytes.Repeat([]byte("planted-question:"), 6)[:100]); err != nil {
			break
		}
		if _, err := io.ReadFull(conn, make([]byte, 14*3000)); err != nil {
			break
		}
	}
	conn.Close()
	wait.Wait()
	return tape.said
}

func TestHandshakes(t *testing.T) {
	t.Parallel()
	resuming := func(c *tls.Config) *tls.Config {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		return c
	}
	for name, test := range map[string]struct {
		version uint16
		change  func(server, client *tls.Config)
		want    capture.TLSDetail
		failed  bool
	}{
		"1.2":         {version12, nil, capture.TLSDetail{Version: version12, ALPN: "http/1.1", Alert: -1}, false},
		"1.3":         {version13, nil, capture.TLSDetail{Version: version13, Alert: -1}, false},
		"1.2 resumed": {version12, func(_, c *tls.Config) { resuming(c) }, capture.TLSDetail{Version: version12, ALPN: "http/1.1", Resumed: true, Alert: -1}, false},
		"1.3 resumed": {version13, func(_, c *tls.Config) { resuming(c) }, capture.TLSDetail{Version: version13, Resumed: true, Alert: -1}, false},
		"1.3 asked again": {version13, func(s, c *tls.Config) {
			s.CurvePreferences = []tls.CurveID{tls.CurveP384}
			c.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP384}
		}, capture.TLSDetail{Version: version13, Retried: true, Alert: -1}, false},
		"1.2 both certified": {version12, func(s, c *tls.Config) {
			s.ClientAuth, c.Certificates = tls.RequireAnyClientCert, []tls.Certificate{certificate()}
		}, capture.TLSDetail{Version: version12, ALPN: "http/1.1", Alert: -1}, false},
		"no common version":  {version12, func(_, c *tls.Config) { c.MinVersion, c.MaxVersion = version13, version13 }, capture.TLSDetail{Alert: 70}, true},
		"no common protocol": {version13, func(_, c *tls.Config) { c.NextProtos = []string{"other"} }, capture.TLSDetail{Alert: 120}, true},
		"1.2 distrusted":     {version12, func(_, c *tls.Config) { c.InsecureSkipVerify = false }, capture.TLSDetail{Version: version12, ALPN: "http/1.1", Alert: 42}, true},
		"1.3 distrusted":     {version13, func(_, c *tls.Config) { c.InsecureSkipVerify = false }, capture.TLSDetail{Version: version13, Alert: -1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := serverConfig(test.version), clientConfig(test.version)
			if test.change != nil {
				test.change(server, client)
			}
			said := talk(t, server, client, 3)
			if test.want.Resumed {
				said = talk(t, server, client, 3)
			}
			got := capturetest.Play(Protocol(), said...)
			capturetest.NoSecret(t, got, "planted")
			if got.Lost != 0 || len(got.Exchanges) == 0 {
				t.Fatalf("lost %d; %v", got.Lost, capturetest.Summaries(got.Exchanges))
			}
			x := got.Exchanges[0]
			if diff := cmp.Diff(&test.want, x.TLS); diff != "" {
				t.Errorf("detail (-want +got):\n%s", diff)
			}
			if x.Op != "handshake" || x.Authority != "web.example.com" || x.Failed != test.failed || !x.Answered() {
				t.Errorf("%v", capturetest.Summaries(got.Exchanges))
			}
			turns := got.Exchanges[1:]
			if test.failed {
				if len(turns) != 0 {
					t.Errorf("%v; want nothing after it", capturetest.Summaries(got.Exchanges))
				}
				return
			}
			if len(turns) != 3 {
				t.Fatalf("%v; want three turns", capturetest.Summaries(got.Exchanges))
			}
			for _, x := range turns {
				if x.Op != "data" || x.Authority != "web.example.com" || x.Request.Bytes < 100 || x.Request.Bytes > 160 || x.Response.Bytes < 42000 || x.Response.Bytes > 43500 {
					t.Errorf("%+v; want 100 bytes answered by 42000", *x)
				}
			}
			capturetest.AnySegmentation(t, Protocol(), said...)
		})
	}
}

// record is a record of a type.
func record(kind byte, body string) string {
	return string([]byte{kind, 3, 3, byte(len(body) >> 8), byte(len(body))}) + body
}

// data is a record of data of a size.
func data(size int) string { return record(applicationData, strings.Repeat("x", size)) }

// message is a handshake message.
func message(kind byte, body string) string {
	return string([]byte{kind, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}) + body
}

// helloOf is a hello with extensions.
func helloOf(kind byte, extensions string) string {
	body := "\x03\x03" + strings.Repeat("r", 32) + "\x00"
	if kind == clientHello {
		body += "\x00\x02\x13\x01\x01\x00"
	} else {
		body += "\x13\x01\x00"
	}
	return message(kind, body+string([]byte{byte(len(extensions) >> 8), byte(len(extensions))})+extensions)
}

const (
	sni    = "\x00\x00\x00\x08\x00\x06\x00\x00\x03web"
	only13 = "\x00\x2b\x00\x02\x03\x04"
)

var (
	ask13    = C(record(handshakeRecord, helloOf(clientHello, sni)))
	answer13 = S(record(handshakeRecord, helloOf(serverHello, only13)), record(changeCipherSpec, "\x01"), data(900))
	end13    = data(53)
	ask12    = ask13
	answer12 = S(record(handshakeRecord, helloOf(serverHello, "")+message(11, "certificate")), record(handshakeRecord, message(14, "")))
	finished = record(changeCipherSpec, "\x01") + record(handshakeRecord, strings.Repeat("x", 40))
)

func TestTurns(t *testing.T) {
	t.Parallel()
	const shake13, shake12 = "1-1 2-3 handshake @web", "1-1 2-4 handshake @web"
	for name, test := range map[string]struct {
		said []capturetest.Said
		want []string
	}{
		"1.3": {
			[]capturetest.Said{ask13, answer13, C(end13, data(100)), S(data(250), data(250)), S(data(3000)), C(data(50)), S(data(60))},
			[]string{shake13, "3-3 5-5 data @web", "6-6 7-7 data @web"},
		},
		"tickets before the question": {
			[]capturetest.Said{ask13, answer13, C(end13), S(data(250), data(250)), C(data(100)), S(data(90)), C(data(50)), S(data(60))},
			[]string{shake13, "5-5 6-6 data @web", "7-7 8-8 data @web"},
		},
		"short answer, and no tickets": {
			[]capturetest.Said{ask13, answer13, C(end13, data(100)), S(data(90)), C(data(50)), S(data(60))},
			[]string{shake13, "3-5 6-6 data @web"},
		},
		"one short answer": {
			[]capturetest.Said{ask13, answer13, C(end13, data(100)), S(data(90))},
			[]string{shake13, "3-3 4-4 data @web"},
		},
		"close": {
			[]capturetest.Said{ask13, answer13, C(end13, data(100)), S(data(3000)), S(data(19)), C(data(19)), S(data(19))},
			[]string{shake13, "3-3 4-4 data @web"},
		},
		"two bytes are data when more follow": {
			[]capturetest.Said{ask13, answer13, C(end13, data(19)), C(data(50)), S(data(3000)), S(data(19)), S(data(50))},
			[]string{shake13, "3-4 5-7 data @web"},
		},
		"two bytes are answered": {
			[]capturetest.Said{ask13, answer13, C(end13, data(19)), S(data(3000))},
			[]string{shake13, "3-3 4-4 data @web"},
		},
		"1.3 refused": {
			[]capturetest.Said{ask13, answer13, C(data(19))},
			[]string{shake13 + " failed"},
		},
		"early data": {
			[]capturetest.Said{ask13, C(data(100)), answer13, C(end13), S(data(3000))},
			[]string{"1-1 3-4 handshake @web", "2-2 5-5 data @web"},
		},
		"1.2": {
			[]capturetest.Said{ask12, answer12, C(record(handshakeRecord, message(16, "key")), finished), S(finished), C(data(100)), S(data(24)), C(record(alert, strings.Repeat("x", 26))), S(record(alert, strings.Repeat("x", 26)))},
			[]string{shake12, "5-5 6-6 data @web"},
		},
		"1.2 resumed": {
			[]capturetest.Said{ask12, S(record(handshakeRecord, helloOf(serverHello, "")), finished), C(finished, data(100)), S(data(24))},
			[]string{shake13, "3-3 4-4 data @web"},
		},
		"1.2 false start": {
			[]capturetest.Said{ask12, answer12, C(finished, data(100)), S(finished, data(24))},
			[]string{shake12, "3-3 4-4 data @web"},
		},
		"1.2 without the server's last": {
			[]capturetest.Said{ask12, answer12, C(finished), gap(50, C(data(100))), gap(200, S(data(24)))},
			[]string{shake13, "4-4 5-5 data @web"},
		},
		"refused": {
			[]capturetest.Said{ask13, S(record(alert, "\x02\x28"))},
			[]string{"1-1 2-2 handshake @web failed"},
		},
		"warned": {
			[]capturetest.Said{ask12, S(record(alert, "\x01\x70")), answer12, C(finished), S(finished)},
			[]string{"1-1 3-5 handshake @web"},
		},
		"not answered": {[]capturetest.Said{ask13}, []string{"1-1 0-0 handshake @web"}},
		"not finished": {[]capturetest.Said{ask13, answer13}, []string{"1-1 0-0 handshake @web"}},
		"hello in records": {
			[]capturetest.Said{C(record(handshakeRecord, ask13.Data[5:20])), C(record(handshakeRecord, ask13.Data[20:])), answer13, C(end13)},
			[]string{"1-2 3-4 handshake @web"},
		},
		"hello cut": {
			[]capturetest.Said{C(ask13.Data[:len(ask13.Data)-1]), gap(1, C("")), answer13, C(end13)},
			[]string{"1-2 3-4 handshake"},
		},
		"data missing": {
			[]capturetest.Said{ask13, answer13, C(end13, data(100)), S(data(3000)[:50]), gap(5000, S("cut")), gap(90, S("cut")), C(data(70)), S(data(80))},
			[]string{shake13, "3-3 4-6 data @web", "7-7 8-8 data @web"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := capturetest.Play(Protocol(), test.said...)
			if diff := cmp.Diff(test.want, capturetest.Summaries(got.Exchanges)); diff != "" {
				t.Errorf("exchanges (-want +got):\n%s", diff)
			}
			for _, s := range test.said {
				if s.Missing > 0 {
					return
				}
			}
			capturetest.AnySegmentation(t, Protocol(), test.said...)
		})
	}
}

func TestMid(t *testing.T) {
	t.Parallel()
	got := capturetest.PlayMid(Protocol(), S("end of a record"), C(data(100)), S(data(200)), C(data(19)))
	want := []string{"2-2 3-3 data"}
	if diff := cmp.Diff(want, capturetest.Summaries(got.Exchanges)); diff != "" || got.Lost != 15 {
		t.Errorf("lost %d; (-want +got):\n%s", got.Lost, diff)
	}
}

func TestRecognise(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data string
		want capture.Recognition
	}{
		"ClientHello": {ask13.Data, capture.ByClient},
		"ServerHello": {answer13.Data, capture.ByServer},
		"data":        {data(100), capture.Perhaps},
		"alert":       {record(alert, "\x02\x28"), capture.Perhaps},
		"empty":       {"", capture.Perhaps},
		"beginning":   {"\x16\x03", capture.Perhaps},
		"a letter":    {"G", capture.NotIt},
		"no record":   {"\x16\x03\x01\x00\x00", capture.NotIt},
		"HTTP":        {"GET / HTTP/1.1\r\n\r\n", capture.NotIt},
		"PostgreSQL":  {"\x00\x00\x00\x08\x04\xd2\x16\x2f", capture.NotIt},
		"MySQL":       {"\x4a\x00\x00\x00\x0a8.0.36\x00", capture.NotIt},
		"long record": {"\x17\x03\x03\xff\xff\x00", capture.NotIt},
	} {
		if got := Protocol().Recognise([]byte(test.data[:min(len(test.data), capture.RecogniseBytes)])); got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
}

func FuzzParser(f *testing.F) {
	f.Add(capturetest.Script(ask13, answer13, C(end13, data(100)), S(data(250), data(3000)), C(data(19))))
	f.Add(capturetest.Script(ask12, answer12, C(finished), S(finished), C(data(100)), S(data(30))))
	f.Add(capturetest.Script(ask13, S(record(alert, "\x02\x28"))))
	f.Fuzz(func(t *testing.T, script []byte) {
		chunks := capturetest.Fuzzed(script)
		for _, conn := range []*capture.Conn{{}, {Mid: true}} {
			capturetest.Check(t, capturetest.PlayChunks(Protocol(), conn, chunks), chunks)
		}
	})
}

func BenchmarkData(b *testing.B) {
	chunks := capturetest.Chunks([]capturetest.Said{ask13, answer13, C(end13), C(data(100)), S(data(1400))})
	p := Protocol().New(&capture.Conn{}, func(*capture.Exchange) {})
	for _, c := range chunks[:3] {
		p.Chunk(c)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Chunk(chunks[3])
		p.Chunk(chunks[4])
	}
}

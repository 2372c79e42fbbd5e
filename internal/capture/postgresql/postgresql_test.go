package postgresql

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
)

// C and S are what client and server say.
var C, S, gap = capturetest.C, capturetest.S, capturetest.Gap

// m is a message: its letter, and its body, in which "|" is a zero byte.
func m(letter, body string) string {
	body = strings.ReplaceAll(body, "|", "\x00")
	return letter + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))) + body
}

// start is a startup packet.
func start(code uint32, body string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)+8))
	return string(binary.BigEndian.AppendUint32(b, code)) + strings.ReplaceAll(body, "|", "\x00")
}

var (
	hello = start(version3, "user|planted-user|database|planted-db||")
	ready = m("Z", "I")
	// welcome is how a connection begins.
	welcome = []capturetest.Said{
		C(hello), S(m("R", "|||\x0aSCRAM-SHA-256||")), C(m("p", "planted-password")), S(m("R", "||||")),
		S(m("S", "standard_conforming_strings|on|"), m("K", "12345678"), ready),
	}
	row = m("T", "||") + m("D", "planted-row")
)

// after is what follows a welcome.
func after(said ...capturetest.Said) []capturetest.Said {
	return append(append([]capturetest.Said(nil), welcome...), said...)
}

func failure(code string) string {
	return m("E", "SERROR|VERROR|C"+code+"|Mplanted-message||")
}

func TestExchanges(t *testing.T) {
	t.Parallel()
	const up = "1-1 2-5 startup"
	for name, test := range map[string]struct {
		said []capturetest.Said
		want []string
	}{
		"startup": {welcome, []string{up}},
		"refused": {
			[]capturetest.Said{C(hello), S(failure("28P01"))},
			[]string{"1-1 2-2 startup failed 28P01"},
		},
		"without TLS": {
			[]capturetest.Said{C(start(gss, "")), S("N"), C(start(ssl, "")), S("N"), C(hello), S(ready)},
			[]string{"1-1 2-2 GSSENCRequest", "3-3 4-4 SSLRequest", "5-5 6-6 startup"},
		},
		"too old for TLS": {
			[]capturetest.Said{C(start(ssl, "")), S(failure("0A000"))},
			[]string{"1-1 2-2 SSLRequest failed"},
		},
		"cancel": {[]capturetest.Said{C(start(cancel, "12345678"))}, []string{"1-1 0-0 CancelRequest"}},
		"query": {
			after(C(m("Q", "SELECT 'planted-literal' FROM t|")), S(row), S(m("C", "SELECT 1|"), ready)),
			[]string{up, "6-6 7-8 SELECT [SELECT ? FROM t]"},
		},
		"error": {
			after(C(m("Q", "SELECT 1/0|")), S(failure("22012"), ready)),
			[]string{up, "6-6 7-7 SELECT [SELECT ?/?] failed 22012"},
		},
		"two queries at once": {
			after(C(m("Q", "SELECT 1|"), m("Q", "UPDATE t SET a = 1|")), S(ready), S(ready)),
			[]string{up, "6-6 7-7 SELECT [SELECT ?]", "6-6 8-8 UPDATE [UPDATE t SET a = ?]"},
		},
		"extended": {
			after(
				C(m("P", "s1|SELECT a FROM t WHERE b = $1|||"), m("D", "Ss1|"), m("S", "")), S(m("1", ""), m("t", "||"), ready),
				C(m("B", "|s1|||||planted-value"), m("E", "|||||")), C(m("S", "")), S(m("2", ""), row, m("C", "SELECT 1|"), ready),
				C(m("C", "Ss1|"), m("S", "")), S(m("3", ""), ready),
				C(m("B", "|s1|"), m("E", "|||||"), m("S", "")), S(failure("26000"), ready),
				C(m("S", "")), S(ready),
			),
			[]string{
				up, "6-6 7-7 PREPARE [SELECT a FROM t WHERE b = ?]", "8-9 10-10 SELECT [SELECT a FROM t WHERE b = ?]",
				"11-11 12-12 CLOSE", "13-13 14-14 EXECUTE failed 26000", "15-15 16-16 SYNC",
			},
		},
		"all in one, with a named portal": {
			after(C(m("P", "|SELECT a|||"), m("B", "p|||||"), m("E", "p|||||"), m("P", "|SELECT b|||"), m("B", "|||||"), m("E", "|||||"), m("S", "")), S(ready)),
			[]string{up, "6-6 7-7 SELECT [SELECT a]"},
		},
		"flushed before the sync": {
			after(C(m("P", "|SELECT a|||"), m("H", "")), S(m("1", "")), C(m("B", "|||||"), m("E", "|||||"), m("S", "")), S(m("2", ""), ready)),
			[]string{up, "6-8 7-9 SELECT [SELECT a]"},
		},
		"copy in": {
			after(C(m("Q", "COPY t FROM STDIN|")), S(m("G", "||||")), C(m("d", "planted-row")), C(m("c", "")), S(m("C", "COPY 1|"), ready)),
			[]string{up, "6-9 7-10 COPY [COPY t FROM STDIN]"},
		},
		"notification": {
			after(S(m("A", "1234planted-channel|planted-payload|")), C(m("Q", "SELECT a|")), S(m("N", "Mplanted-notice||"), ready)),
			[]string{up, "7-7 8-8 SELECT [SELECT a]"},
		},
		"not answered": {
			after(C(m("Q", "SELECT a|")), S(row)),
			[]string{up, "6-6 0-0 SELECT [SELECT a]"},
		},
		"ended by the server": {
			after(C(m("Q", "SELECT a|")), S(failure("57P01"))),
			[]string{up, "6-6 7-7 SELECT [SELECT a] failed 57P01"},
		},
		"backslash": {
			after(
				C(m("Q", `SELECT '\', planted FROM t|`)), S(ready),
				C(m("Q", `SET standard_conforming_strings = off|`)), S(m("S", "standard_conforming_strings|off|"), ready),
				C(m("Q", `SELECT '\', planted', b|`)), S(ready),
			),
			[]string{up, "6-6 7-7 SELECT [SELECT ?, planted FROM t]", "8-8 9-9 SET [SET standard_conforming_strings = ?]", "10-10 11-11 SELECT [SELECT ?, b]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := capturetest.Play(Protocol(), test.said...)
			if diff := cmp.Diff(test.want, summaries(got)); diff != "" {
				t.Errorf("exchanges (-want +got):\n%s", diff)
			}
			if got.Lost != 0 || got.Handover.To != "" {
				t.Errorf("lost %d bytes; handed over to %q", got.Lost, got.Handover.To)
			}
			if name != "backslash" {
				capturetest.NoSecret(t, got, "planted")
			}
			capturetest.AnySegmentation(t, Protocol(), test.said...)
		})
	}
}

// summaries are capturetest's, with the code.
func summaries(r capturetest.Result) []string {
	lines := capturetest.Summaries(r.Exchanges)
	for i, x := range r.Exchanges {
		if x.Code != "" {
			lines[i] += " " + x.Code
		}
	}
	return lines
}

func TestHandover(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code       uint32
		answer, to string
	}{{ssl, "S", capture.TLS}, {gss, "G", capture.Turns}} {
		got := capturetest.Play(Protocol(), C(start(test.code, "")), S(test.answer+"rest"), C("never seen"))
		if got.Handover.To != test.to || string(got.Handover.Rest) != "rest" || got.Message != 2 {
			t.Errorf("%+v; want %s with the rest", got, test.to)
		}
		if len(got.Exchanges) != 1 || !got.Exchanges[0].Answered() {
			t.Errorf("%v; want one answered exchange", summaries(got))
		}
	}
}

func TestMid(t *testing.T) {
	t.Parallel()
	got := capturetest.PlayMid(Protocol(),
		S("planted-row, the end of which is this"), S(row, ready),
		C(m("B", "|s7|||||planted-value"), m("E", "|||||"), m("S", "")), S(m("2", ""), row, m("C", "SELECT 1|"), ready),
		C(m("Q", `SELECT 'a\', 'planted' FROM t|`)), S(row, ready),
		C(m("X", "")),
	)
	want := []string{"3-3 4-4 EXECUTE", "5-5 6-6 SELECT [SELECT ?]"}
	if diff := cmp.Diff(want, summaries(got)); diff != "" || got.Lost != 37 {
		t.Errorf("lost %d; (-want +got):\n%s", got.Lost, diff)
	}
	capturetest.NoSecret(t, got, "planted")
}

func TestLoss(t *testing.T) {
	t.Parallel()
	const up = "1-1 2-5 startup"
	query := m("Q", "SELECT a|")
	for name, test := range map[string]struct {
		said []capturetest.Said
		want []string
	}{
		"in a row": {
			after(C(query), S(m("D", "12345678")[:6]), gap(7, S(ready))),
			[]string{up, "6-6 7-8 SELECT [SELECT a]"},
		},
		"of the end of the answer": {
			after(C(query), S(row), gap(100, S("")), S("something"), C(query), S(ready)),
			[]string{up, "6-6 7-9 SELECT [SELECT a]", "10-10 11-11 SELECT [SELECT a]"},
		},
		"of all of the answer": {
			after(C(query), gap(100, S("")), C(query), S(ready)),
			[]string{up, "6-6 7-7 SELECT [SELECT a]", "8-8 9-9 SELECT [SELECT a]"},
		},
		"before the end of the answer": {
			after(C(query), gap(100, S(ready)), C(query), S(ready)),
			[]string{up, "6-6 7-7 SELECT [SELECT a]", "8-8 9-9 SELECT [SELECT a]"},
		},
		"with two open": {
			after(C(query, query), S(row), gap(100, S("")), C(query), S(ready)),
			[]string{up, "6-6 0-0 SELECT [SELECT a]", "6-6 8-8 SELECT [SELECT a]", "9-9 10-10 SELECT [SELECT a]"},
		},
		"of an answer, seen late": {
			after(C(query), C(m("Q", "SELECT b|")), gap(100, S(row, ready)), C(query), S(ready)),
			[]string{up, "6-6 0-0 SELECT [SELECT a]", "7-7 8-8 SELECT [SELECT b]", "9-9 10-10 SELECT [SELECT a]"},
		},
		"of what a backslash is": {
			after(C(m("Q", `SET standard_conforming_strings = off|`)), C(m("Q", `SELECT 'a\', b', c|`)), gap(100, S(ready)), C(m("Q", `SELECT 'a\', b', c|`)), S(ready)),
			[]string{up, "6-6 0-0 SET [SET standard_conforming_strings = ?]", "7-7 8-8 SELECT [SELECT ?]", "9-9 10-10 SELECT [SELECT ?]"},
		},
		"of rows with text": {
			after(C(query), S(row), gap(100, S("D a row's text")), S("Dear reader"), S("Telling"), S(ready), C(query), S(ready)),
			[]string{up, "6-6 7-11 SELECT [SELECT a]", "12-12 13-13 SELECT [SELECT a]"},
		},
		"of the answer about TLS": {
			[]capturetest.Said{C(start(ssl, "")), gap(1, S(m("S", "a|b|"))), C(hello), S(ready)},
			[]string{"1-1 0-0 SSLRequest", "3-3 4-4 startup"},
		},
		"of a sync": {
			after(C(m("P", "|SELECT a|||"), m("B", "||||||planted")[:10]), gap(90, C("")), S(row, ready), C(query), S(ready)),
			[]string{up, "6-7 8-8 SELECT [SELECT a]", "9-9 10-10 SELECT [SELECT a]"},
		},
		"before the client leaves": {
			after(C(query), S(row), gap(100, S("")), C(m("X", ""))),
			[]string{up, "6-6 7-8 SELECT [SELECT a]"},
		},
		"of the beginning": {
			[]capturetest.Said{gap(50, C(query)), S(ready), C(query), S(ready)},
			[]string{"3-3 4-4 SELECT [SELECT a]"},
		},
		"of a question": {
			after(gap(50, C("")), S(row, ready), C(query), S(ready)),
			[]string{up, "8-8 9-9 SELECT [SELECT a]"},
		},
		"of the end of a question": {
			after(C(query[:10]), gap(4, C("")), S(row, ready)),
			[]string{up, "6-7 8-8 SELEC [SELEC]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := capturetest.Play(Protocol(), test.said...)
			if diff := cmp.Diff(test.want, summaries(got)); diff != "" {
				t.Errorf("exchanges (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBounds sends without end what is remembered.
func TestBounds(t *testing.T) {
	t.Parallel()
	said := welcome
	for i := range 3 * maxPrepared {
		said = append(said, C(m("P", fmt.Sprintf("s%d|SELECT a|||", i)), m("B", fmt.Sprintf("p%d|s%d|", i, i)), m("S", "")))
	}
	told := 0
	parsed := Protocol().New(&capture.Conn{}, func(*capture.Exchange) { told++ }).(*parser)
	for _, c := range capturetest.Chunks(said) {
		parsed.Chunk(c)
	}
	if len(parsed.open) > maxOpen || len(parsed.prepared.named) > maxPrepared || len(parsed.prepared.inOrder) > maxPrepared || len(parsed.portals.named) > maxPortals {
		t.Errorf("%d open, %d statements, %d portals", len(parsed.open), len(parsed.prepared.named), len(parsed.portals.named))
	}
	parsed.Close()
	if want := 1 + 3*maxPrepared; told != want {
		t.Errorf("%d exchanges are told; want %d", told, want)
	}
}

// TestManyAtOnce asks more at once than is kept: the first are given up, and their answers
// are not taken for those of others.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	got := capturetest.Play(Protocol(), after(C(strings.Repeat(m("Q", "SELECT a|"), maxOpen+10)), C(m("Q", "SELECT b|")), S(strings.Repeat(ready, maxOpen+10)), S(row, ready))...)
	if len(got.Exchanges) != maxOpen+12 {
		t.Fatalf("%d exchanges", len(got.Exchanges))
	}
	for i, x := range got.Exchanges[1:] {
		if x.Answered() != (i >= 11) {
			t.Errorf("exchange %d is answered: %v", i, x.Answered())
		}
	}
	if last := summaries(got)[maxOpen+11]; last != "7-7 9-9 SELECT [SELECT b]" {
		t.Errorf("the last is %s", last)
	}
}

func TestRecognise(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data string
		want capture.Recognition
	}{
		"startup":       {hello, capture.ByClient},
		"SSLRequest":    {start(ssl, ""), capture.ByClient},
		"GSSENC":        {start(gss, ""), capture.ByClient},
		"cancel":        {start(cancel, "12345678"), capture.ByClient},
		"query":         {m("Q", "SELECT 1|"), capture.Perhaps},
		"long query":    {m("Q", "SELECT "+strings.Repeat("a", 100)+"|"), capture.Perhaps},
		"reply":         {m("2", "") + row + ready, capture.Perhaps},
		"empty":         {"", capture.Perhaps},
		"beginning":     {hello[:3], capture.Perhaps},
		"header":        {hello[:8], capture.Perhaps},
		"query's head":  {m("Q", "SELECT 1|")[:3], capture.Perhaps},
		"HTTP":          {"GET / HTTP/1.1\r\n\r\n", capture.NotIt},
		"TLS":           {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", capture.NotIt},
		"Redis":         {"*1\r\n$4\r\nPING\r\n", capture.NotIt},
		"MySQL":         {"\x4a\x00\x00\x00\x0a8.0.36\x00", capture.NotIt},
		"zeros":         {strings.Repeat("\x00", 64), capture.NotIt},
		"Postgres text": {"Please write", capture.NotIt},
	} {
		if got := Protocol().Recognise([]byte(test.data[:min(len(test.data), capture.RecogniseBytes)])); got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
}

func FuzzParser(f *testing.F) {
	f.Add(capturetest.Script(after(C(m("Q", "SELECT 'a' FROM t|")), S(row, m("C", "SELECT 1|"), failure("22012"), ready))...))
	f.Add(capturetest.Script(after(C(m("P", "s|SELECT $1|||"), m("B", "p|s|||"), m("E", "p|||||"), m("C", "Ss|"), m("S", "")), S(m("1", ""), m("2", ""), ready))...))
	f.Add(capturetest.Script(C(start(ssl, "")), S("N"), C(hello)))
	f.Fuzz(func(t *testing.T, script []byte) {
		chunks := capturetest.Fuzzed(script)
		for _, conn := range []*capture.Conn{{}, {Mid: true}} {
			capturetest.Check(t, capturetest.PlayChunks(Protocol(), conn, chunks), chunks)
		}
	})
}

func BenchmarkQuery(b *testing.B) {
	chunks := capturetest.Chunks(after(C(m("Q", "SELECT o.id, o.total FROM orders o WHERE o.id = 12345 AND o.state = 'open'|")), S(row, row, m("C", "SELECT 2|"), ready)))
	told := 0
	p := Protocol().New(&capture.Conn{}, func(*capture.Exchange) { told++ })
	for _, c := range chunks[:len(welcome)] {
		p.Chunk(c)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range chunks[len(welcome):] {
			p.Chunk(c)
		}
	}
	if told < b.N {
		b.Fatal(told)
	}
}

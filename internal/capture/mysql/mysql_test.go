package mysql

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

// packets numbers payloads from a number on.
func packets(sequence byte, payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		b.Write([]byte{byte(len(p)), byte(len(p) >> 8), byte(len(p) >> 16), sequence})
		b.WriteString(p)
		sequence++
	}
	return b.String()
}

// query and the others are commands.
func query(text string) string { return packets(0, "\x03"+text) }

func execute(id uint32) string {
	return packets(0, "\x17"+string(binary.LittleEndian.AppendUint32(nil, id))+"\x00\x01\x00\x00\x00planted-parameter")
}

const (
	ok      = "\x00\x01\x00\x02\x00\x00\x00"
	okMore  = "\x00\x01\x00\x0a\x00\x00\x00"
	okPlain = "\x00\x00\x00\x02\x02\x00\x00"
	eof     = "\xfe\x00\x00\x02\x00"
	okEOF   = "\xfe\x00\x00\x02\x00\x00\x00"
	failure = "\xff\x28\x04#42000planted message"
	column  = "\x03def\x07planted"
	row     = "\x0bplanted-row"
)

// greeting is the server's, with capabilities.
func greeting(capabilities uint32) string {
	return packets(0, "\x0a8.0.36\x00\x01\x00\x00\x00abcdefgh\x00"+string([]byte{byte(capabilities), byte(capabilities >> 8)})+"\x21\x02\x00"+string([]byte{byte(capabilities >> 16), byte(capabilities >> 24)})+"\x15"+strings.Repeat("\x00", 10)+"ijklmnopqrst\x00caching_sha2_password\x00")
}

// login is the client's answer to a greeting.
func login(capabilities uint32) string {
	return packets(1, string(binary.LittleEndian.AppendUint32(nil, capabilities))+strings.Repeat("\x00", 28)+"planted-user\x00\x20planted-password")
}

// after is what follows a login.
func after(capabilities uint32, said ...capturetest.Said) []capturetest.Said {
	return append([]capturetest.Said{
		S(greeting(capabilities | 0xf000_0000)), C(login(capabilities)), S(packets(2, "\x01\x04")), C(packets(3, "planted-password")), S(packets(4, ok)),
	}, said...)
}

func TestExchanges(t *testing.T) {
	t.Parallel()
	const up = "2-2 3-5 startup"
	const old, modern = 1, capDeprecateEOF
	for name, test := range map[string]struct {
		said []capturetest.Said
		want []string
	}{
		"startup":  {after(old), []string{up}},
		"refused":  {[]capturetest.Said{S(greeting(1)), C(login(1)), S(packets(2, failure))}, []string{"2-2 3-3 startup failed 1064"}},
		"switched": {[]capturetest.Said{S(greeting(1)), C(login(1)), S(packets(2, "\xfemysql_native_password\x00")), C(packets(3, "planted")), S(packets(4, ok))}, []string{"2-2 3-5 startup"}},
		"too many": {[]capturetest.Said{S(packets(0, failure))}, nil},
		"query": {
			after(old, C(query("SELECT 'planted' FROM t")), S(packets(1, "\x01", column, eof, row)), S(packets(5, row, eof))),
			[]string{up, "6-6 7-8 SELECT [SELECT ? FROM t]"},
		},
		"query, deprecated EOF": {
			after(modern, C(query("SELECT a")), S(packets(1, "\x02", column, column, row, okEOF)), C(query("SELECT b")), S(packets(1, "\x01", column, okEOF))),
			[]string{up, "6-6 7-7 SELECT [SELECT a]", "8-8 9-9 SELECT [SELECT b]"},
		},
		"update":         {after(modern, C(query("UPDATE t SET a=1")), S(packets(1, ok))), []string{up, "6-6 7-7 UPDATE [UPDATE t SET a=?]"}},
		"error":          {after(modern, C(query("SELEC")), S(packets(1, failure))), []string{up, "6-6 7-7 SELEC [SELEC] failed 1064"}},
		"error in rows":  {after(old, C(query("SELECT a")), S(packets(1, "\x01", column, eof, row, failure))), []string{up, "6-6 7-7 SELECT [SELECT a] failed 1064"}},
		"progress":       {after(old, C(query("ALTER TABLE t")), S(packets(1, "\xff\xff\xff\x01planted")), S(packets(2, ok))), []string{up, "6-6 7-8 ALTER [ALTER TABLE t]"}},
		"several":        {after(old, C(query("CALL p(1)")), S(packets(1, "\x01", column, eof, row, "\xfe\x00\x00\x0a\x00")), S(packets(6, okMore)), S(packets(7, ok))), []string{up, "6-6 7-9 CALL [CALL p(?)]"}},
		"file":           {after(old, C(query("LOAD DATA LOCAL INFILE 'planted' INTO TABLE t")), S(packets(1, "\xfbplanted")), C(packets(2, "planted-data", "")), S(packets(4, ok))), []string{up, "6-8 7-9 LOAD [LOAD DATA LOCAL INFILE ? INTO TABLE t]"}},
		"attributes":     {after(capQueryAttributes, C(query("\x00\x01SELECT a")), S(packets(1, ok)), C(query("\x01\x01\x00\x01\x08\x00\x07planted")), S(packets(1, ok))), []string{up, "6-6 7-7 SELECT [SELECT a]", "8-8 9-9 QUERY"}},
		"known metadata": {after(modern, C(query("SELECT a")), S(packets(1, "\x01\x00", row, okEOF))), []string{up, "6-6 7-7 SELECT [SELECT a]"}},
		"commands": {
			after(old, C(packets(0, "\x0e")), S(packets(1, ok)), C(packets(0, "\x02planted-db")), S(packets(1, ok)), C(packets(0, "\x09")), S(packets(1, "Uptime: planted")), C(packets(0, "\x01"))),
			[]string{up, "6-6 7-7 PING", "8-8 9-9 INIT_DB", "10-10 11-11 STATISTICS"},
		},
		"another user": {
			after(old, C(packets(0, "\x11planted-user\x00planted")), S(packets(1, "\xfea\x00")), C(packets(2, "planted")), S(packets(3, ok))),
			[]string{up, "6-6 7-9 CHANGE_USER"},
		},
		"prepared": {
			after(old,
				C(packets(0, "\x16SELECT a FROM t WHERE b = ?")), S(packets(1, "\x00\x07\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00", column, eof, column)), S(packets(5, eof)),
				C(execute(7)), S(packets(1, "\x01", column, eof, "\x00\x00planted-row", eof)),
				C(packets(0, "\x18\x07\x00\x00\x00\x00\x00planted"), packets(0, "\x19\x07\x00\x00\x00")), C(execute(7)), S(packets(1, failure)),
			),
			[]string{up, "6-6 7-8 PREPARE [SELECT a FROM t WHERE b = ?]", "9-9 10-10 SELECT [SELECT a FROM t WHERE b = ?]", "12-12 13-13 EXECUTE failed 1064"},
		},
		"prepared and executed at once": {
			after(modern, C(packets(0, "\x16UPDATE t SET a = ?"), execute(1<<32-1)), S(packets(1, "\x00\x07\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00", column)), S(packets(1, ok)), C(packets(0, "\x16SELEC")), S(packets(1, failure))),
			[]string{up, "6-6 7-7 PREPARE [UPDATE t SET a = ?]", "6-6 8-8 UPDATE [UPDATE t SET a = ?]", "9-9 10-10 PREPARE [SELEC] failed 1064"},
		},
		"cursor": {
			after(old, C(execute(1)), S(packets(1, "\x01", column, "\xfe\x00\x00\x42\x00")), C(packets(0, "\x1c\x01\x00\x00\x00\x0a\x00\x00\x00")), S(packets(1, "\x00\x00planted", eof))),
			[]string{up, "6-6 7-7 EXECUTE", "8-8 9-9 FETCH"},
		},
		"backslash": {
			after(modern, C(query(`SELECT 'a\' planted', b`)), S(packets(1, okPlain)), C(query(`SELECT 'planted\', b`)), S(packets(1, ok))),
			[]string{up, "6-6 7-7 SELECT [SELECT ?, b]", "8-8 9-9 SELECT [SELECT ?, b]"},
		},
		"binary log":   {after(old, C(packets(0, "\x12\x04\x00\x00\x00")), S(packets(1, "planted")), C("anything")), []string{up, "6-6 0-0 BINLOG_DUMP"}},
		"not answered": {after(old, C(query("SELECT a")), S(packets(1, "\x01", column))), []string{up, "6-6 0-0 SELECT [SELECT a]"}},
		"long row": {
			after(modern, C(query("SELECT a")), S(packets(1, "\x01", column, strings.Repeat("x", maxPayload), "\xfe\x00\x00\x00\x00\x00\x00", okEOF))),
			[]string{up, "6-6 7-7 SELECT [SELECT a]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := capturetest.Play(Protocol(), test.said...)
			if diff := cmp.Diff(test.want, summaries(got)); diff != "" || got.Lost != 0 || got.Handover.To != "" {
				t.Errorf("lost %d; to %q; (-want +got):\n%s", got.Lost, got.Handover.To, diff)
			}
			capturetest.NoSecret(t, got, "planted")
			if name != "long row" {
				capturetest.AnySegmentation(t, Protocol(), test.said...)
			}
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
	tls := packets(1, string(binary.LittleEndian.AppendUint32(nil, capTLS))+strings.Repeat("\x00", 28))
	for name, test := range map[string]struct {
		said    []capturetest.Said
		to      string
		message int
		want    []string
	}{
		"TLS":        {[]capturetest.Said{S(greeting(capTLS)), C(tls, "rest")}, capture.TLS, 2, nil},
		"compressed": {[]capturetest.Said{S(greeting(capCompress)), C(login(capCompress)), S(packets(2, ok), "rest")}, capture.Turns, 3, []string{"2-2 3-3 startup"}},
	} {
		got := capturetest.Play(Protocol(), append(test.said, C("never seen"))...)
		if got.Handover.To != test.to || string(got.Handover.Rest) != "rest" || got.Message != test.message {
			t.Errorf("%s: %+v; want %s with the rest", name, got, test.to)
		}
		if diff := cmp.Diff(test.want, summaries(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLoss(t *testing.T) {
	t.Parallel()
	const up = "2-2 3-5 startup"
	result := packets(1, "\x01", column, eof, row, eof)
	for name, test := range map[string]struct {
		said []capturetest.Said
		want []string
	}{
		"in a row":                {after(1, C(query("SELECT a")), S(result[:40]), gap(3, S(result[43:]))), []string{up, "6-6 7-8 SELECT [SELECT a]"}},
		"of the end":              {after(1, C(query("SELECT a")), S(result[:20]), gap(1000, S("")), S("x"), C(query("SELECT b")), S(packets(1, ok))), []string{up, "6-6 7-9 SELECT [SELECT a]", "10-10 11-11 SELECT [SELECT b]"}},
		"before the client quits": {after(1, C(query("SELECT a")), S(result[:20]), gap(1000, S("")), C(packets(0, "\x01"))), []string{up, "6-6 7-8 SELECT [SELECT a]"}},
		"of all":                  {after(1, C(query("SELECT a")), gap(1000, S("")), C(query("SELECT b")), S(packets(1, ok))), []string{up, "6-6 7-7 SELECT [SELECT a]", "8-8 9-9 SELECT [SELECT b]"}},
		"of a packet in step":     {after(1, C(query("SELECT a")), S(packets(1, "\x01")), S(packets(5, eof)), C(query("SELECT b")), S(packets(1, ok))), []string{up, "6-6 7-8 SELECT [SELECT a]", "9-9 10-10 SELECT [SELECT b]"}},
		"with two open":           {after(1, C(query("SELECT a"), query("SELECT b")), gap(1000, S("")), C(query("SELECT c")), S(packets(1, ok))), []string{up, "6-6 0-0 SELECT [SELECT a]", "6-6 7-7 SELECT [SELECT b]", "8-8 9-9 SELECT [SELECT c]"}},
		"of the end of a query":   {after(1, C(query("SELECT a")[:11]), gap(2, C("")), S(packets(1, ok))), []string{up, "6-7 8-8 SELECT [SELECT]"}},
		"of the beginning":        {[]capturetest.Said{gap(9, S("\x20\x00\x00of a row")), C(query("SELECT a")), S(packets(1, ok))}, []string{"2-2 3-3 SELECT [SELECT a]"}},
		"of a query":              {after(1, gap(100, C("")), S(packets(1, ok)), C(query("SELECT a")), S(packets(1, ok))), []string{up, "8-8 9-9 SELECT [SELECT a]"}},
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

func TestMid(t *testing.T) {
	t.Parallel()
	got := capturetest.PlayMid(Protocol(),
		S("of a row"), C(query(`SELECT 'a\' , planted'`)), S(packets(1, "\x01", column, row, okEOF)),
		C(query(`SELECT 'a\' , planted', b`)), S(packets(1, "\x01", column, eof, row, eof)), C(execute(3)), S(packets(1, ok)),
	)
	want := []string{"2-2 3-3 SELECT [SELECT ?]", "4-4 5-5 SELECT [SELECT ?, b]", "6-6 7-7 EXECUTE"}
	if diff := cmp.Diff(want, summaries(got)); diff != "" || got.Lost != 8 {
		t.Errorf("lost %d; (-want +got):\n%s", got.Lost, diff)
	}
	capturetest.NoSecret(t, got, "planted")
}

// TestBounds sends without end what is remembered.
func TestBounds(t *testing.T) {
	t.Parallel()
	p := Protocol().New(&capture.Conn{}, func(*capture.Exchange) {}).(*parser)
	said := after(capDeprecateEOF)
	for i := range uint32(3 * maxPrepared) {
		said = append(said, C(packets(0, "\x16SELECT a")), S(packets(1, "\x00"+string(binary.LittleEndian.AppendUint32(nil, i))+"\x00\x00\x00\x00\x00\x00\x00")))
	}
	said = append(said, C(strings.Repeat(query("SELECT a"), 3*maxOpen)))
	for _, c := range capturetest.Chunks(said) {
		p.Chunk(c)
	}
	if len(p.prepared.byID) != maxPrepared || len(p.prepared.inOrder) != maxPrepared || len(p.open) > maxOpen {
		t.Errorf("%d statements, %d ids, %d open", len(p.prepared.byID), len(p.prepared.inOrder), len(p.open))
	}
}

func TestRecognise(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data string
		want capture.Recognition
	}{
		"greeting":   {greeting(1), capture.ByServer},
		"MariaDB":    {packets(0, "\x0a5.5.5-10.11.6-MariaDB-1:10.11.6+maria~ubu2204\x00"+strings.Repeat("x", 60)), capture.ByServer},
		"query":      {query("SELECT 1"), capture.Perhaps},
		"ping":       {packets(0, "\x0e"), capture.Perhaps},
		"beginning":  {greeting(1)[:8], capture.Perhaps},
		"a header":   {greeting(1)[:4], capture.Perhaps},
		"empty":      {"", capture.Perhaps},
		"HTTP":       {"GET / HTTP/1.1\r\n\r\n", capture.NotIt},
		"TLS":        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", capture.NotIt},
		"PostgreSQL": {"\x00\x00\x00\x08\x04\xd2\x16\x2f", capture.NotIt},
		"Redis":      {"*1\r\n$4\r\nPING\r\n", capture.NotIt},
		"SSH":        {"SSH-2.0-OpenSSH_9.6\r\n", capture.NotIt},
		"zeros":      {strings.Repeat("\x00", 64), capture.NotIt},
	} {
		if got := Protocol().Recognise([]byte(test.data[:min(len(test.data), capture.RecogniseBytes)])); got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
}

func FuzzParser(f *testing.F) {
	f.Add(capturetest.Script(after(1, C(query("SELECT 'a' FROM t")), S(packets(1, "\x01", column, eof, row, eof)), C(execute(1)), S(packets(1, failure)))...))
	f.Add(capturetest.Script(after(capDeprecateEOF, C(packets(0, "\x16SELECT ?")), S(packets(1, "\x00\x07\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00", column)), C(execute(7)), S(packets(1, "\x01", column, "\x00\x00x", okEOF)))...))
	f.Add(capturetest.Script(after(capCompress)...))
	f.Fuzz(func(t *testing.T, script []byte) {
		chunks := capturetest.Fuzzed(script)
		for _, conn := range []*capture.Conn{{}, {Mid: true}} {
			capturetest.Check(t, capturetest.PlayChunks(Protocol(), conn, chunks), chunks)
		}
	})
}

func BenchmarkQuery(b *testing.B) {
	chunks := capturetest.Chunks(after(capDeprecateEOF, C(query("SELECT o.id, o.total FROM orders o WHERE o.id = 12345 AND o.state = 'open'")), S(packets(1, "\x02", column, column, row, row, okEOF))))
	told := 0
	p := Protocol().New(&capture.Conn{}, func(*capture.Exchange) { told++ })
	for _, c := range chunks[:5] {
		p.Chunk(c)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Chunk(chunks[5])
		p.Chunk(chunks[6])
	}
	if told != b.N+1 {
		b.Fatal(fmt.Sprint(told, b.N))
	}
}

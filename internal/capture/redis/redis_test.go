package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
)

// C and S are what client and server say.
var C, S, gap = capturetest.C, capturetest.S, capturetest.Gap

// cmd is a command of words.
func cmd(words string) string {
	fields := strings.Fields(words)
	s := fmt.Sprintf("*%d\r\n", len(fields))
	for _, f := range fields {
		s += bulk(f)
	}
	return s
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func TestExchanges(t *testing.T) {
	t.Parallel()
	const ok = "+OK\r\n"
	for name, test := range map[string]struct {
		said []capturetest.Said
		want []string
	}{
		"one":     {[]capturetest.Said{C(cmd("GET planted-key")), S(bulk("planted-value"))}, []string{"1-1 2-2 GET"}},
		"in line": {[]capturetest.Said{C("set planted-key planted-value\r\n"), S(ok), C("\r\nPING\n"), S("+PONG\r\n")}, []string{"1-1 2-2 SET", "3-3 4-4 PING"}},
		"at once": {
			[]capturetest.Said{C(cmd("SET a b"), cmd("INCR c")), C(cmd("hgetall d")), S(ok, ":7\r\n"), S("%1\r\n", bulk("a"), bulk("b"))},
			[]string{"1-1 3-3 SET", "1-1 3-3 INCR", "2-2 4-4 HGETALL"},
		},
		"credentials": {
			[]capturetest.Said{C(cmd("AUTH planted-user planted-password")), S("-WRONGPASS planted-message\r\n"), C(cmd("HELLO 3 AUTH planted-user planted-password")), S(ok)},
			[]string{"1-1 2-2 AUTH failed WRONGPASS", "3-3 4-4 HELLO"},
		},
		"subcommands": {
			[]capturetest.Said{C(cmd("config get planted")), S("*0\r\n"), C(cmd("CLUSTER SLOTS")), S("*0\r\n"), C(cmd("CLIENT planted")), S("-ERR planted\r\n"), C(cmd("GET SET")), S("$-1\r\n")},
			[]string{"1-1 2-2 CONFIG GET", "3-3 4-4 CLUSTER SLOTS", "5-5 6-6 CLIENT failed ERR", "7-7 8-8 GET"},
		},
		"renamed": {
			[]capturetest.Said{C(cmd("planted0123456789 a")), S(ok), C(cmd(strings.Repeat("planted", 9))), S(ok), C(cmd("JSON.GET a")), S(ok)},
			[]string{"1-1 2-2 ?", "3-3 4-4 ?", "5-5 6-6 JSON.GET"},
		},
		"transaction": {
			[]capturetest.Said{C(cmd("MULTI"), cmd("INCR a"), cmd("EXEC")), S(ok, "+QUEUED\r\n", "*1\r\n:1\r\n")},
			[]string{"1-1 2-2 MULTI", "1-1 2-2 INCR", "1-1 2-2 EXEC"},
		},
		"nested": {
			[]capturetest.Said{C(cmd("XREAD a")), S("*2\r\n*1\r\n*-1\r\n"), S("~2\r\n#t\r\n(123\r\n"), C(cmd("PING")), S("+PONG\r\n")},
			[]string{"1-1 2-3 XREAD", "4-4 5-5 PING"},
		},
		"attributes": {
			[]capturetest.Said{C(cmd("GET a"), cmd("GET b")), S("|1\r\n+ttl\r\n:5\r\n", "*1\r\n:1\r\n", "|0\r\n", "-ERR x\r\n")},
			[]string{"1-1 2-2 GET", "1-1 2-2 GET failed ERR"},
		},
		"long error": {
			[]capturetest.Said{C(cmd("GET a")), S("!21\r\nSYNTAX planted string\r\n"), C(cmd("GET a")), S("-planted " + strings.Repeat("x", 100) + "\r\n")},
			[]string{"1-1 2-2 GET failed SYNTAX", "3-3 4-4 GET failed"},
		},
		"subscription": {
			[]capturetest.Said{
				C(cmd("SUBSCRIBE planted-a planted-b")), S("*3\r\n" + bulk("subscribe") + bulk("planted-a") + ":1\r\n"), S("*3\r\n" + bulk("subscribe") + bulk("planted-b") + ":2\r\n"),
				S("*3\r\n" + bulk("message") + bulk("planted-a") + bulk("planted-message")), C(cmd("PING")), S("*3\r\n"+bulk("message")+bulk("planted-a")+bulk("x"), "*2\r\n"+bulk("pong")+bulk("")),
				C(cmd("UNSUBSCRIBE")), S("*3\r\n" + bulk("unsubscribe") + bulk("planted-a") + ":1\r\n"), S("*3\r\n" + bulk("unsubscribe") + bulk("planted-b") + ":0\r\n"),
				C(cmd("GET a")), S(bulk("message")),
			},
			[]string{"1-1 2-3 SUBSCRIBE", "5-5 6-6 PING", "7-7 8-8 UNSUBSCRIBE", "10-10 11-11 GET"},
		},
		"pushes": {
			[]capturetest.Said{C(cmd("GET a")), S(">2\r\n" + bulk("invalidate") + "*1\r\n" + bulk("planted")), S(bulk("b")), S(">3\r\n" + bulk("subscribe") + bulk("x") + ":1\r\n")},
			[]string{"1-1 3-3 GET"},
		},
		"a list that looks like a message": {
			[]capturetest.Said{C(cmd("LRANGE a 0 9")), S("*1\r\n" + bulk("message"))},
			[]string{"1-1 2-2 LRANGE"},
		},
		"without replies": {
			[]capturetest.Said{C(cmd("CLIENT REPLY SKIP"), cmd("SET a b"), cmd("GET a")), S(bulk("b")), C(cmd("CLIENT REPLY OFF"), cmd("SET a b")), C(cmd("CLIENT REPLY ON")), S(ok)},
			[]string{"1-1 0-0 CLIENT REPLY", "1-1 0-0 SET", "1-1 2-2 GET", "3-3 0-0 CLIENT REPLY", "3-3 0-0 SET", "4-4 5-5 CLIENT REPLY"},
		},
		"monitor": {
			[]capturetest.Said{C(cmd("MONITOR")), S(ok), S("+1.2 [0 127.0.0.1] \"SET\" \"planted\"\r\n"), C("anything")},
			[]string{"1-1 2-2 MONITOR"},
		},
		"not answered": {[]capturetest.Said{C(cmd("BLPOP a 0")), S("*2\r\n")}, []string{"1-1 0-0 BLPOP"}},
		"greeting":     {[]capturetest.Said{S("-DENIED planted\r\n"), C(cmd("PING"))}, []string{"2-2 0-0 PING"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := capturetest.Play(Protocol(), test.said...)
			if diff := cmp.Diff(test.want, summaries(got)); diff != "" || got.Lost != 0 {
				t.Errorf("lost %d; (-want +got):\n%s", got.Lost, diff)
			}
			capturetest.NoSecret(t, got, "planted")
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

func TestLoss(t *testing.T) {
	t.Parallel()
	set, get := "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1000\r\n", cmd("GET a")
	for name, test := range map[string]struct {
		said []capturetest.Said
		want []string
		lost uint64
	}{
		"in a value":         {[]capturetest.Said{C(set, "01234"), gap(900, C(strings.Repeat("x", 95), "\r\n")), S("+OK\r\n")}, []string{"1-2 3-3 SET"}, 0},
		"to a command's end": {[]capturetest.Said{C(set, "01234"), gap(997, C("")), S("+OK\r\n"), C(get), S("+OK\r\n")}, []string{"1-2 3-3 SET", "4-4 5-5 GET"}, 0},
		"past a value":       {[]capturetest.Said{C(set, "01234"), gap(2000, C("")), S("+OK\r\n"), C(get), S("+OK\r\n")}, []string{"1-1 3-3 SET", "4-4 5-5 GET"}, 0},
		"of commands":        {[]capturetest.Said{C(get), gap(100, C("ab\r\n", get)), C(get), S("+1\r\n+2\r\n+3\r\n"), C(get), S("+4\r\n")}, []string{"1-1 0-0 GET", "3-3 4-4 GET", "5-5 6-6 GET"}, 24},
		"in a reply":         {[]capturetest.Said{C(get), S("$1000\r\nab"), gap(998, S("\r\n")), C(get), S("+2\r\n")}, []string{"1-1 2-3 GET", "4-4 5-5 GET"}, 0},
		"to a reply's end":   {[]capturetest.Said{C(get), S("$1000\r\nab"), gap(1000, S("")), C(get), S("+2\r\n")}, []string{"1-1 2-3 GET", "4-4 5-5 GET"}, 0},
		"past a reply":       {[]capturetest.Said{C(get), S("*2\r\n$1000\r\nab"), gap(1000, S("")), gap(1000, S("xx")), C(get), S("+2\r\n")}, []string{"1-1 2-4 GET", "5-5 6-6 GET"}, 2},
		"of two replies":     {[]capturetest.Said{C(get, get), S("*2\r\n"), gap(2000, S("")), C(get), S("+2\r\n")}, []string{"1-1 0-0 GET", "1-1 3-3 GET", "4-4 5-5 GET"}, 0},
		"no command":         {[]capturetest.Said{C("*1\r\n:5\r\n"), C(get), S("+OK\r\n")}, []string{"2-2 3-3 GET"}, 4},
		"no reply":           {[]capturetest.Said{C(get), S("what\r\n"), C(get), S("+OK\r\n")}, []string{"1-1 2-2 GET", "3-3 4-4 GET"}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := capturetest.Play(Protocol(), test.said...)
			if diff := cmp.Diff(test.want, summaries(got)); diff != "" || got.Lost != test.lost {
				t.Errorf("lost %d; want %d (-want +got):\n%s", got.Lost, test.lost, diff)
			}
		})
	}
}

func TestMid(t *testing.T) {
	t.Parallel()
	got := capturetest.PlayMid(Protocol(), S("of a value\r\n"), C("and of a command\r\n"), S("+OK\r\n"), C(cmd("GET a"), cmd("GET b")), S("$1\r\na\r\n"), S("$-1\r\n"))
	if diff := cmp.Diff([]string{"4-4 5-5 GET", "4-4 6-6 GET"}, summaries(got)); diff != "" || got.Lost != 35 {
		t.Errorf("lost %d; (-want +got):\n%s", got.Lost, diff)
	}
}

// TestBounds sends more commands at once than are kept: the first are given up, and their
// replies are not taken for those of others.
func TestBounds(t *testing.T) {
	t.Parallel()
	got := capturetest.Play(Protocol(), C(strings.Repeat(cmd("INCR a"), maxOpen+10)), C(cmd("GET a")), S(strings.Repeat(":1\r\n", maxOpen+10)), S(bulk("1")))
	if len(got.Exchanges) != maxOpen+11 {
		t.Fatalf("%d exchanges", len(got.Exchanges))
	}
	for i, x := range got.Exchanges {
		if x.Answered() != (i >= 11) {
			t.Errorf("exchange %d is answered: %v", i, x.Answered())
		}
	}
	if last := summaries(got)[maxOpen+10]; last != "2-2 4-4 GET" {
		t.Errorf("the last is %s", last)
	}
}

func TestRecognise(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]capture.Recognition{
		cmd("GET a"):               capture.ByClient,
		cmd("hello 3"):             capture.ByClient,
		cmd("JSON.GET a"):          capture.Perhaps,
		"*2\r\n$3\r\nfoo\r\n$3\r":  capture.Perhaps,
		"PING\r\n":                 capture.Perhaps,
		"+OK\r\n":                  capture.Perhaps,
		"$5\r\nhello\r\n":          capture.Perhaps,
		"":                         capture.NotIt,
		"GET / HTTP/1.1":           capture.NotIt,
		"POST /a HTTP/1.1\r\n":     capture.NotIt,
		"220 mail ESMTP\r\n":       capture.NotIt,
		"\x16\x03\x01\x02\x00\x01": capture.NotIt,
		"*\r\n":                    capture.NotIt,
		"*":                        capture.Perhaps,
		"*3":                       capture.Perhaps,
		"*x":                       capture.NotIt,
		"-ERR no":                  capture.Perhaps,
		"*99999999999999\r\n$1":    capture.NotIt,
	} {
		if got := Protocol().Recognise([]byte(data)); got != want {
			t.Errorf("%q: %d; want %d", data, got, want)
		}
	}
}

func FuzzParser(f *testing.F) {
	f.Add(capturetest.Script(C(cmd("SET a b"), cmd("SUBSCRIBE c d")), S("+OK\r\n*3\r\n"+bulk("subscribe")+bulk("c")+":1\r\n"), C("PING\r\n"), S("|1\r\n+a\r\n:1\r\n%1\r\n+a\r\n*-1\r\n")))
	f.Add(capturetest.Script(C(cmd("CLIENT REPLY OFF"), cmd("MULTI")), S(">2\r\n+message\r\n_\r\n-ERR x\r\n"), C(cmd("PSYNC"))))
	f.Fuzz(func(t *testing.T, script []byte) {
		chunks := capturetest.Fuzzed(script)
		for _, conn := range []*capture.Conn{{}, {Mid: true}} {
			capturetest.Check(t, capturetest.PlayChunks(Protocol(), conn, chunks), chunks)
		}
	})
}

func BenchmarkCommand(b *testing.B) {
	chunks := capturetest.Chunks([]capturetest.Said{C(cmd("SET session:12345 " + strings.Repeat("x", 200))), S("+OK\r\n")})
	told := 0
	p := Protocol().New(&capture.Conn{}, func(*capture.Exchange) { told++ })
	b.ReportAllocs()
	for b.Loop() {
		p.Chunk(chunks[0])
		p.Chunk(chunks[1])
	}
	if told != b.N {
		b.Fatal(told)
	}
}

package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"

	"taper.dev/taper/internal/probe"
)

// wire is a connection from which these bytes come, and to which all can be written.
type wire struct {
	net.Conn
	in io.Reader
}

func (w wire) Read(b []byte) (int, error)       { return w.in.Read(b) }
func (w wire) Write(b []byte) (int, error)      { return len(b), nil }
func (w wire) SetDeadline(time.Time) error      { return nil }
func (w wire) SetReadDeadline(time.Time) error  { return nil }
func (w wire) SetWriteDeadline(time.Time) error { return nil }
func (w wire) Close() error                     { return nil }

// frames are messages as they go over the wire.
func frames(messages ...message) []byte {
	var out []byte
	for _, m := range messages {
		content, _ := json.Marshal(m)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(content))), content...)
	}
	return out
}

func FuzzFrame(f *testing.F) {
	f.Add(frames(message{Kind: kindPing}), 100)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, 1<<20)
	f.Add([]byte{0, 0, 0, 0}, 1)
	f.Fuzz(func(t *testing.T, b []byte, most int) {
		most %= maxAnswerFrame + 1
		content, err := readFrame(bytes.NewReader(b), most, func() error { return nil })
		if err == nil && (len(content) == 0 || len(content) > most || !bytes.Equal(content, b[4:4+len(content)])) {
			t.Errorf("a frame of %d bytes, where %d are the most", len(content), most)
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(greeting{protocol: 1, flags: flagTLS, release: "v1.2.3"}.bytes())
	f.Add(dataHello(newTicket()))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"))
	f.Add([]byte(controlMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.NewReader(b)
		hello, err := readHello(in)
		if read := len(b) - in.Len(); read > probe.HelloBytes {
			t.Errorf("it read %d bytes", read)
		}
		if err != nil {
			return
		}
		g, noGreeting := parseGreeting(hello)
		ticket, noData := parseDataHello(hello)
		if noGreeting == nil && noData == nil {
			t.Error("both a greeting and a data hello")
		}
		if noData == nil && !bytes.Equal(dataHello(ticket)[ticketAt:], hello[ticketAt:]) {
			t.Error("the ticket is another")
		}
		if strings.ContainsFunc(g.release, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("the release %q cannot be shown", g.release)
		}
	})
}

// Without the token nothing gets anybody in, on either side.
func FuzzHandshake(f *testing.F) {
	f.Add(frames(message{Kind: kindNonce, Nonce: newNonce(), Token: true}, message{Kind: kindProof, Proof: newNonce()}))
	f.Add(frames(message{Kind: kindNonce, Nonce: newNonce()}))
	f.Add(frames(message{Kind: kindNonce, Token: true}, message{Kind: kindPing}))
	f.Add(frames(message{Kind: kindFailed, Reason: "\x1b[2J"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := authenticate(t.Context(), newLink(wire{in: bytes.NewReader(b)}, pace{}), secret, newNonce()); err == nil {
			t.Error("the agent let somebody in")
		}
		_, err := introduce(t.Context(), newLink(wire{in: bytes.NewReader(b)}, pace{}), keyringOf(secret))
		if err == nil {
			t.Error("a client believed somebody")
		} else if strings.ContainsRune(err.Error(), 0x1b) {
			t.Errorf("%q cannot be shown", err)
		}
	})
}

// Whatever somebody asks who knows the token, the session ends when its connection does.
func FuzzSession(f *testing.F) {
	spec := short(probe.TCPBandwidth)
	f.Add(frames(message{Kind: kindHost}, message{Kind: kindInterfaces}))
	f.Add(frames(message{Kind: kindRun, Spec: &spec, Wait: time.Second}, message{Kind: kindEnd}))
	f.Add(frames(message{Kind: kindRun}, message{Kind: kindDelegate, Target: "x"}, message{Kind: kindProof}))
	f.Add(frames(message{Kind: kindEnd}, message{Kind: kindBye, Reason: "x"}))
	ended := func(probe.Test) ends {
		return ends{far: func(context.Context, probe.Spec, probe.Arrivals) (probe.Side, error) { return probe.Side{}, nil }}
	}
	p := quick
	p.drain, p.overtime = time.Millisecond, time.Millisecond
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &Server{
			options: Options{ends: ended, pace: p}, logger: slog.New(slog.DiscardHandler),
			// To nobody: what is fuzzed must not dial.
			limits: Limits{Targets: []netip.Prefix{}}.withDefaults(), turn: newTurn(), tallies: newTallies(),
		}
		l := newLink(wire{in: bytes.NewReader(b)}, p)
		l.most = maxRequestFrame
		(&session{server: s, link: l}).converse(t.Context())
		if release, err := s.turn.take(t.Context(), 0, "the test"); err != nil {
			t.Error("the turn was not given back:", err)
		} else {
			release()
		}
	})
}

// What an agent answers must neither crash a client nor take much of its memory.
func FuzzAnswer(f *testing.F) {
	d := probe.NewDistribution()
	d.Record(time.Millisecond)
	f.Add(frames(message{Kind: kindDelegate, Trial: &probe.Trial{RTT: d}}))
	f.Add(frames(message{Kind: kindRun, Report: &report{Incomplete: "\x1b[2J"}}))
	f.Add(frames(message{Kind: kindChallenge, Digest: newNonce()}))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLink(wire{in: bytes.NewReader(b)}, quick)
		l.most = maxAnswerFrame
		for {
			m, err := l.receive()
			if err != nil {
				return
			}
			if m.Trial != nil && m.Trial.RTT != nil {
				m.Trial.RTT.Summary()
			}
		}
	})
}

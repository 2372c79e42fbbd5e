package agent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"taper.dev/taper/internal/probe"
)

// How long a frame may be. Strangers can make an agent hold little, and those who know
// the token not much more: only answers are long.
const (
	maxStrangerFrame = 4 << 10
	maxRequestFrame  = 64 << 10
	maxAnswerFrame   = 4 << 20
)

// kind says what a message is for.
type kind string

const (
	// The handshake: nonces, then proofs.
	kindNonce kind = "nonce"
	kindProof kind = "proof"
	// At any time: a sign of life, and why the connection is about to end.
	kindPing kind = "ping"
	kindBye  kind = "bye"
	// Requests. Each is answered once before the next is made, with its own kind or failed.
	kindHost       kind = "host"
	kindInterfaces kind = "interfaces"
	kindRun        kind = "run"
	kindDelegate   kind = "delegate"
	kindFailed     kind = "failed"
	// Within a run: the agent is ready, and the asker is done.
	kindTicket kind = "ticket"
	kindEnd    kind = "end"
	// Within a delegation: the agent asks for proofs to show to the other one.
	kindChallenge kind = "challenge"
)

// message is a frame's content: of the fields, those of its kind.
type message struct {
	Kind kind `json:"kind"`

	Nonce    []byte `json:"nonce,omitempty"`
	Token    bool   `json:"token,omitempty"` // this side has one
	Proof    []byte `json:"proof,omitempty"`
	Instance []byte `json:"instance,omitempty"` // of the agent's process
	Digest   []byte `json:"digest,omitempty"`   // what a challenge wants proofs for
	Expected []byte `json:"expected,omitempty"` // the proof that the other side must give

	Spec   *probe.Spec   `json:"spec,omitempty"`
	Wait   time.Duration `json:"wait_ns,omitempty"` // for the turn
	Target string        `json:"target,omitempty"`
	Ticket []byte        `json:"ticket,omitempty"`

	Report     *report           `json:"report,omitempty"`
	Trial      *probe.Trial      `json:"trial,omitempty"`
	Host       *probe.Host       `json:"host,omitempty"`
	Interfaces []probe.Interface `json:"interfaces,omitempty"`

	Reason string `json:"reason,omitempty"`
	Busy   bool   `json:"busy,omitempty"` // why it failed: somebody else's turn
}

// report is what came of the far end of a trial.
type report struct {
	Side probe.Side `json:"side"`
	// Streams and Datagrams are how many connections and sockets of the near end arrived.
	Streams   int `json:"streams"`
	Datagrams int `json:"datagrams"`
	// Incomplete says why the far end stopped before its time; Stopped that its agent had it
	// stop, so that what the near end says of it is only the consequence.
	Incomplete string `json:"incomplete,omitempty"`
	Stopped    bool   `json:"stopped,omitempty"`
}

// link carries messages over one control connection. Sending is safe for concurrent use;
// one goroutine receives.
type link struct {
	conn net.Conn
	pace pace
	most int // bytes of a frame that is read

	patience atomic.Int64 // how long the other side may be silent
	writing  sync.Mutex
}

func newLink(conn net.Conn, p pace) *link {
	l := &link{conn: conn, pace: p, most: maxStrangerFrame}
	l.patience.Store(int64(p.silence))
	return l
}

// send writes a message within the deadline.
func (l *link) send(m message) error { return l.sendWithin(m, l.pace.silence) }

func (l *link) sendWithin(m message, limit time.Duration) error {
	content, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("writing a %s message: %w", m.Kind, err)
	}
	if len(content) > maxAnswerFrame {
		return fmt.Errorf("a %s message of %d bytes is more than the %d that go into a frame", m.Kind, len(content), maxAnswerFrame)
	}
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(content))), content...)
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.conn.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err = l.conn.Write(frame)
	return err
}

// receive is the next message. It is an error if the other side is silent for longer than
// the link's patience, or a frame takes longer than that from its first byte to its last.
func (l *link) receive() (message, error) {
	if err := l.waitFor(); err != nil {
		return message{}, err
	}
	content, err := readFrame(l.conn, l.most, l.waitFor)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return message{}, fmt.Errorf("nothing was heard for %v", time.Duration(l.patience.Load()))
	}
	if err != nil {
		return message{}, err
	}
	var m message
	if err := json.Unmarshal(content, &m); err != nil {
		return message{}, fmt.Errorf("reading a message of %d bytes: %w", len(content), err)
	}
	m.Reason = plain(m.Reason)
	return m, nil
}

func (l *link) waitFor() error {
	return l.conn.SetReadDeadline(time.Now().Add(time.Duration(l.patience.Load())))
}

// setPatience changes how long the other side may be silent, of a receive that is waiting too.
func (l *link) setPatience(d time.Duration) {
	l.patience.Store(int64(d))
	_ = l.waitFor() // fails if the connection is closed, which receive tells
}

// beat sends signs of life until the context ends.
func (l *link) beat(ctx context.Context) {
	ticker := time.NewTicker(l.pace.beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// What cannot be sent shows in receive: the other side falls silent as well.
			_ = l.send(message{Kind: kindPing})
		}
	}
}

// readFrame reads a length of four bytes and so many bytes; begun is called between them.
func readFrame(r io.Reader, most int, begun func() error) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || int64(n) > int64(most) {
		return nil, fmt.Errorf("a frame of %d bytes is not possible here: it must have 1 to %d", n, most)
	}
	if err := begun(); err != nil {
		return nil, err
	}
	content := make([]byte, n)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, noEOF(err)
	}
	return content, nil
}

// noEOF makes an end within a frame what it is.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

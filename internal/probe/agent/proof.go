package agent

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"taper.dev/taper/internal/probe"
)

// Token is what both sides of a control connection must know. It prints as a placeholder,
// whatever prints it.
type Token string

// MinTokenBytes is the shortest token of an agent that listens on more than the loopback.
// Who listens in on a handshake can try out tokens at home, so it must not be a word.
const MinTokenBytes = 16

const hidden = "(token)"

// Format prints the placeholder.
func (Token) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText writes the placeholder.
func (Token) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue logs the placeholder.
func (Token) LogValue() slog.Value { return slog.StringValue(hidden) }

// proofs show that somebody knows a token, one for each side of a connection: a proof
// cannot be sent back to who gave it.
type proofs struct{ dialled, listening []byte }

// prove makes the proofs for the digest of a handshake: HMAC-SHA256 with the token as key.
func prove(token Token, digest []byte) proofs {
	sign := func(role string) []byte {
		mac := hmac.New(sha256.New, []byte(token))
		mac.Write([]byte("taper net, " + role + "\x00"))
		mac.Write(digest)
		return mac.Sum(nil)
	}
	return proofs{dialled: sign("dialled"), listening: sign("listening")}
}

// keyring makes proofs for a digest. It is how an agent shows a token to another agent on
// behalf of who asked it, without having it.
type keyring func(ctx context.Context, digest []byte) (proofs, error)

func keyringOf(token Token) keyring {
	return func(_ context.Context, digest []byte) (proofs, error) { return prove(token, digest), nil }
}

const nonceBytes = 32

func newNonce() []byte {
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	return nonce
}

// handshakeDigest binds proofs to one handshake and, with TLS, to one TLS connection: they
// are worth nothing to somebody in between (RFC 9266 binds by exported keys as well).
func handshakeDigest(conn net.Conn, dialled, listening []byte) ([]byte, error) {
	h := sha256.New()
	h.Write([]byte("taper net control\x00"))
	h.Write(binary.BigEndian.AppendUint16(nil, protocol))
	h.Write(dialled)
	h.Write(listening)
	if secure, ok := conn.(*tls.Conn); ok {
		state := secure.ConnectionState()
		key, err := state.ExportKeyingMaterial("EXPORTER-taper-net", nil, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("binding to the TLS connection: %w", err)
		}
		h.Write(key)
	}
	return h.Sum(nil), nil
}

var (
	errTokenWanted = errors.New("it wants a token and none was given: give the one that it was started with, by --token-file or TAPER_NET_TOKEN")
	errTokenWrong  = errors.New("the token is not the one that the agent was started with")
	errNoSuchToken = errors.New("a token was given and it has none: start it with this token, or leave the token out")
)

// introduce is the handshake of who dialled: it proves to know the token, and then has the
// agent prove it. It returns which process the agent is. Without a keyring there is no token.
func introduce(ctx context.Context, l *link, keys keyring) (instance []byte, err error) {
	nonce := newNonce()
	if err := l.send(message{Kind: kindNonce, Nonce: nonce, Token: keys != nil}); err != nil {
		return nil, err
	}
	theirs, err := l.expect(kindNonce)
	if err != nil {
		return nil, err
	}
	switch {
	case len(theirs.Nonce) != nonceBytes:
		return nil, fmt.Errorf("its nonce has %d bytes instead of %d", len(theirs.Nonce), nonceBytes)
	case theirs.Token && keys == nil:
		return nil, errTokenWanted
	case !theirs.Token && keys != nil:
		return nil, errNoSuchToken
	case keys == nil:
		return theirs.Instance, nil
	}
	digest, err := handshakeDigest(l.conn, nonce, theirs.Nonce)
	if err != nil {
		return nil, err
	}
	known, err := keys(ctx, digest)
	if err != nil {
		return nil, err
	}
	if err := l.send(message{Kind: kindProof, Proof: known.dialled}); err != nil {
		return nil, err
	}
	answer, err := l.expect(kindProof)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(answer.Proof, known.listening) {
		return nil, errors.New("it does not know the token: this is not the agent that it was given for")
	}
	return theirs.Instance, nil
}

// authenticate is the agent's side of the handshake. A wrong token is answered late.
func authenticate(ctx context.Context, l *link, token Token, instance []byte) error {
	theirs, err := l.expect(kindNonce)
	if err != nil {
		return err
	}
	if len(theirs.Nonce) != nonceBytes {
		return fmt.Errorf("a nonce of %d bytes instead of %d", len(theirs.Nonce), nonceBytes)
	}
	nonce := newNonce()
	if err := l.send(message{Kind: kindNonce, Nonce: nonce, Token: token != "", Instance: instance}); err != nil {
		return err
	}
	if token == "" || !theirs.Token {
		if token != "" {
			return errTokenWanted
		}
		if theirs.Token {
			return errNoSuchToken
		}
		return nil
	}
	digest, err := handshakeDigest(l.conn, theirs.Nonce, nonce)
	if err != nil {
		return err
	}
	shown, err := l.expect(kindProof)
	if err != nil {
		return err
	}
	known := prove(token, digest)
	if !hmac.Equal(shown.Proof, known.dialled) {
		pause(ctx, l.pace.penalty)
		_ = l.send(message{Kind: kindFailed, Reason: errTokenWrong.Error()}) // it is gone, or it is told
		return errTokenWrong
	}
	return l.send(message{Kind: kindProof, Proof: known.listening})
}

// pause waits unless the context ends first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// expect receives a message of the kind. If the other side says why there is none, that is
// the error.
func (l *link) expect(k kind) (message, error) {
	m, err := l.receive()
	switch {
	case err != nil:
		return message{}, err
	case m.Kind == kindFailed || m.Kind == kindBye:
		return message{}, &refusal{reason: m.Reason, busy: m.Busy}
	case m.Kind != k:
		return message{}, fmt.Errorf("a %q message came instead of %q", plain(string(m.Kind)), k)
	}
	return m, nil
}

// refusal is what the other side says it did not do, in its words.
type refusal struct {
	reason string
	busy   bool
}

func (r *refusal) Error() string { return r.reason }

// Is makes a busy agent known to errors.Is.
func (r *refusal) Is(target error) bool { return r.busy && target == probe.ErrBusy }

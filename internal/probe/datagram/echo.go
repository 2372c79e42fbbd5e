package datagram

import (
	"time"

	"taper.dev/taper/internal/probe"
)

// echo runs the far end of a latency test: it answers each message with its number.
func (e *end) echo(spec probe.Spec, t *tally) error {
	reply := make([]byte, spec.ReplyBytes)
	w := width(spec.MessageBytes, spec.ReplyBytes)
	return e.newVigil(spec).attend(func(b []byte, at time.Duration) (bool, error) {
		if len(b) != spec.MessageBytes || e.ours(b) {
			return false, nil
		}
		putNumber(reply, w, number(b, w))
		err := e.send(reply)
		t.received(at, len(b))
		if err == nil {
			t.sent(at, len(reply))
		} else if transient(err) {
			err = nil // it counts as lost where it is waited for
		}
		return true, err
	})
}

// ours tells whether a datagram that has the size of a message is something else of the
// trial's: it has a header, or is the hello. (A message's number never reads as a header.)
func (e *end) ours(b []byte) bool {
	switch len(b) {
	case headerBytes:
		h, ok := parse(b)
		return ok && h.tag == e.tag
	case probe.HelloBytes:
		return string(b) == string(e.hello)
	default:
		return false
	}
}

package datagram

import "time"

// journalled is how many of the latest messages are remembered: one for each number that
// a message of one byte can have.
const journalled = 256

// journal remembers when the latest messages of a closed loop were sent, and which were
// answered.
type journal [journalled]struct {
	number uint64
	sent   time.Duration
	open   bool
}

// outcome is what an answer turns out to be.
type outcome int

const (
	awaited outcome = iota // the one that is waited for
	late                   // of a message that was given up
	again                  // there was one before
	unknown                // none of the latest messages
)

// unused is the next number, from one on, that does not look like that of a message whose
// answer may still come: a late answer is then not taken for another. If all do, the
// oldest message is forgotten.
func (j *journal) unused(from uint64) uint64 {
	for n := from; n < from+journalled; n++ {
		if !j[n%journalled].open {
			return n
		}
	}
	return from
}

// write notes that a message is sent.
func (j *journal) write(number uint64, at time.Duration) {
	e := &j[number%journalled]
	e.number, e.sent, e.open = number, at, true
}

// at is when a message that is remembered was sent.
func (j *journal) at(number uint64) time.Duration { return j[number%journalled].sent }

// answered notes an answer, of whose number width bytes are known, and says when its
// message was sent.
func (j *journal) answered(number, latest uint64, width int) (time.Duration, outcome) {
	e := &j[number%journalled]
	if width == numberBytes && e.number != number || e.sent == 0 {
		return 0, unknown
	}
	if !e.open {
		return e.sent, again
	}
	e.open = false
	if e.number == latest {
		return e.sent, awaited
	}
	return e.sent, late
}

package stream

import (
	"sync/atomic"
	"time"

	"taper.dev/taper/internal/probe/socket"
)

// leastBuffer is what a receiver takes at once where messages are small: netperf's
// receiver does so. Above it, a message is read as a whole, as by qperf and iperf3.
const leastBuffer = 128 << 10

// readBytes is how much a receiver of messages of that size takes at once.
func readBytes(messageBytes int) int {
	if messageBytes >= leastBuffer/2 {
		return min(messageBytes, mostBuffer)
	}
	return leastBuffer
}

// window is the time in which the streams of a receiving end count bytes. It opens when
// the first bytes of any stream have been read, which are not in it (they came before),
// and lasts as long as the trial, on the receiver's clock: bandwidth is what was read
// within it, divided by its length. There is no warm-up, so slow start is in it.
type window struct {
	length time.Duration
	opened atomic.Int64 // 1 + ns since the end's base; 0 for not yet
}

// at is the time within the window; opening it returns true.
func (w *window) at(now time.Duration) (time.Duration, bool) {
	opened := w.opened.Load()
	if opened == 0 && w.opened.CompareAndSwap(0, int64(now)+1) {
		return 0, true
	}
	if opened == 0 {
		opened = w.opened.Load()
	}
	return now - time.Duration(opened-1), false
}

// receive reads until the window is over.
func (e *end) receive(fd int, w *window, t *tally) error {
	buf := make([]byte, readBytes(e.spec.MessageBytes))
	defer t.explain(fd)
	defer func() { t.received = t.receivedBytes / int64(e.spec.MessageBytes) }()
	for filled := 0; ; {
		// A buffer of one message is filled before the next begins: reads that end where
		// messages end are more, and cost what qperf's and iperf3's do.
		n, err := socket.Read(fd, buf[filled:])
		filled += n
		if filled == len(buf) || len(buf) > e.spec.MessageBytes {
			filled = 0
		}
		e.spend(t, n)
		at, opens := w.at(e.now())
		if err != nil {
			return e.cutShort(err, w, t)
		}
		if at >= w.length {
			t.elapsed = w.length
			return nil
		}
		if opens {
			continue
		}
		t.receivedBytes += int64(n)
		t.bin(at, n)
		t.elapsed = at
	}
}

// cutShort says why no more bytes came. A window that was all but over by the last of them
// is as good as a whole one: what is slow at its end is not always the network.
func (e *end) cutShort(err error, w *window, t *tally) error {
	if e.ctx.Err() == nil && whole(t.elapsed, w.length) {
		return nil
	}
	return e.broken(err, t.elapsed)
}

// send writes until the receiver breaks the connection off, which it does when its window
// is over: later than the trial's length after the beginning here. Up to that length it
// counts. All streams have one beginning, however late their threads get a CPU.
func (e *end) send(fd int, message []byte, t *tally) error {
	length := e.spec.Duration
	for {
		n, err := socket.Write(fd, message)
		e.spend(t, n)
		at := e.now() - e.began
		if at < length {
			t.sentBytes += int64(n)
			t.bin(at, n)
			t.elapsed = at
		} else if t.tcp == nil {
			t.elapsed = length
			t.explain(fd)
		}
		if err != nil {
			if t.tcp == nil {
				t.explain(fd)
			}
			t.sent = t.sentBytes / int64(len(message))
			return e.ended(err, at, length)
		}
	}
}

// bulk is either end of tcp_bw: sends says which.
func (e *end) bulk(fds []int, sends bool) (outcome, error) {
	all := tallies(len(fds), e.spec.Duration)
	w := &window{length: e.spec.Duration}
	var message []byte
	if sends {
		message = payload(e.spec.MessageBytes) // all streams send the same
	}
	usage, err := e.threads(len(fds), func(i int) error {
		// Whatever is still on its way does not matter any more, and so ends at once.
		defer e.group.Drop(fds[i])
		if sends {
			return e.send(fds[i], message, all[i])
		}
		if err := socket.ResetOnClose(fds[i]); err != nil {
			return err
		}
		return e.receive(fds[i], w, all[i])
	})
	return outcome{side: side(all, usage)}, err
}

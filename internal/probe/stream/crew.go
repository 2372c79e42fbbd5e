package stream

import (
	"errors"
	"sync"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// crew is the threads of one end, which may become more.
type crew struct {
	cpu     *int
	running sync.WaitGroup

	mu     sync.Mutex
	usages []probe.Usage
	err    error
	failed chan struct{} // closed at the first error
	// stop is called at the first error.
	stop func()
}

func newCrew(cpu *int, stop func()) *crew {
	return &crew{cpu: cpu, failed: make(chan struct{}), stop: stop}
}

// start runs a loop on a thread of its own.
func (c *crew) start(loop func() error) { c.running.Go(func() { c.run(loop) }) }

// run runs a loop on a thread of its own to its end.
func (c *crew) run(loop func() error) {
	usage, err := socket.Thread(c.cpu, loop)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usages = append(c.usages, usage)
	if err != nil && c.err == nil {
		c.err = err
		close(c.failed)
		c.stop()
	}
}

// failure is the first error; nil if there is none yet.
func (c *crew) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// wait returns when all have ended: with what they used, and the first error.
func (c *crew) wait() (probe.Usage, error) {
	c.running.Wait()
	return socket.Total(c.usages...), c.err
}

// threads runs n loops to their ends. If one fails, the trial is not a whole one, and the
// others need not go on.
func (e *end) threads(n int, loop func(i int) error) (probe.Usage, error) {
	c := newCrew(e.cpu, e.cancel)
	for i := range n {
		c.start(func() error { return loop(i) })
	}
	return c.wait()
}

// errGone is an agent that stopped bringing connections.
var errGone = errors.New("no more connections are taken")

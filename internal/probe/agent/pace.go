package agent

import (
	"time"

	"taper.dev/taper/internal/probe"
)

// pace says how long things may take.
type pace struct {
	// hello is for the first bytes of a connection. Who opens one and says nothing holds a
	// place among the strangers for so long.
	hello time.Duration
	// handshake is for all of it, from the first byte to the proof.
	handshake time.Duration
	// penalty is how long the answer to a wrong token waits.
	penalty time.Duration
	// beat is how often each side gives a sign of life, silence how long the other waits
	// for one. A stalled TCP connection may repeat a segment three times within it.
	beat, silence time.Duration
	// late is how much later than the control connection's word a data connection may come.
	late time.Duration
	// drain is how long a far end may go on after the near end has finished: what is in
	// buffers and on a slow path is still counted.
	drain time.Duration
	// overtime is what a trial may take beyond its duration, to connect, to fill a path,
	// to search.
	overtime time.Duration
	// stop is for the word that says why a connection ends.
	stop time.Duration
}

var defaultPace = pace{
	hello: 3 * time.Second, handshake: 5 * time.Second, penalty: time.Second,
	beat: time.Second, silence: 5 * time.Second,
	late: time.Second, drain: 5 * time.Second, overtime: 30 * time.Second,
	stop: 200 * time.Millisecond,
}

// floodPatience is by how much more silence is allowed while datagrams are sent as fast as
// they go: they leave no room for control, and TCP steps back where UDP does not.
const floodPatience = 4

// patience is how long either side may be silent during a trial.
func (p pace) patience(spec probe.Spec) time.Duration {
	if spec.Test == probe.UDPBandwidth {
		return floodPatience * p.silence
	}
	return p.silence
}

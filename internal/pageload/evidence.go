package pageload

import (
	"math"

	"taper.dev/taper/internal/verdict"
)

// measured is a step, and how busy this machine was meanwhile; see [busy].
type measured struct {
	verdict.Step
	busy float64
}

const (
	// stayedFull is how many steps in a row a machine must be full to be believed to be so
	// with more users: others may need it for a while.
	stayedFull = 3
	// endedFull is how many of the last ones are to be explained by it when there are no
	// more users.
	endedFull = 1
)

// evidence is what is known of a way.
type evidence struct {
	rates []verdict.Step
	// busy is the most that this machine was in these steps; NaN if that is not known.
	busy float64
}

func (e evidence) clientFull() bool { return e.busy >= verdict.ClientFull }

// evidence leaves out the steps in which this machine was full: that there was not more
// throughput says nothing about others then. It leaves out none if the machine was full in
// so many at the end, and throughput had not stopped growing in the others.
func (w *way) evidence(atEnd int) evidence {
	var all, spare evidence
	last := 0 // steps in a row, at the end, in which it was full
	for _, m := range w.steps {
		all.add(m)
		if m.busy >= verdict.ClientFull {
			last++
			continue
		}
		last = 0
		spare.add(m)
	}
	if last < atEnd {
		return spare
	}
	if _, ok := verdict.Plateau(spare.rates); ok {
		return spare
	}
	return all
}

func (e *evidence) add(m measured) {
	e.rates = append(e.rates, m.Step)
	e.busy = math.Max(e.busy, m.busy) // NaN stays NaN
}

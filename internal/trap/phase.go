package trap

import (
	"math"
	"time"

	"taper.dev/taper/internal/capture"
)

const (
	// phaseBlock is how long moments are compared with each other: clocks of captures and
	// of kernels drift apart by up to 500 millionths, 15 ms in this time.
	phaseBlock = 30 * time.Second
	// phaseCell is how close two moments are taken for one: all that is held up by one
	// pause ends together, and must not count as many.
	phaseCell = 20 * time.Millisecond
	// fewInBlock moments are too few for the approximation of their distribution.
	fewInBlock = 5
)

// phases tells whether moments come at one phase of a period (Rayleigh's test). It looks
// at one block of time after the other, within each of which the phase may be any, and
// keeps the sums alone.
type phases struct {
	period time.Duration
	// The present block: its number, the cells that had a moment, sums of directions.
	block    int64
	cells    [phaseBlock/phaseCell + 2]bool
	n        int
	cos, sin float64
	// All blocks that ended: how many, their moments, the sum of n·R².
	blocks  int
	moments int
	z       float64
}

// add takes a moment. Those of an earlier block than the present one come too late.
func (p *phases) add(t capture.Time) bool {
	block := int64(t) / int64(phaseBlock)
	if block < p.block {
		return false
	}
	if block > p.block {
		p.end()
		p.block = block
	}
	cell := int64(t)%int64(phaseBlock)/int64(phaseCell) + 1
	if p.cells[cell-1] || p.cells[cell] || int(cell)+1 < len(p.cells) && p.cells[cell+1] {
		return false
	}
	p.cells[cell] = true
	angle := 2 * math.Pi * float64(int64(t)%int64(p.period)) / float64(p.period)
	sin, cos := math.Sincos(angle)
	p.n++
	p.cos += cos
	p.sin += sin
	return true
}

// end closes the present block.
func (p *phases) end() {
	if p.n >= fewInBlock {
		p.blocks++
		p.moments += p.n
		p.z += (p.cos*p.cos + p.sin*p.sin) / float64(p.n)
	}
	p.n, p.cos, p.sin = 0, 0, 0
	clear(p.cells[:])
}

// concentration is how much moments agree in their phase: 0 is not at all, 1 fully. It is
// the mean resultant length, without the bias of few moments.
func (p *phases) concentration() float64 {
	if p.moments <= p.blocks {
		return 0
	}
	return math.Sqrt(max(0, (p.z-float64(p.blocks))/float64(p.moments-p.blocks)))
}

// chance is how likely moments without phase agree as much: n·R² of each block is
// distributed exponentially with mean 1, so that the sum of k blocks is above z with
// probability e^-z · Σ z^j/j!, j < k (the upper tail of the gamma distribution). See
// K. Mardia and P. Jupp, Directional Statistics, section 6.3.
func (p *phases) chance() float64 {
	if p.blocks == 0 {
		return 1
	}
	logZ := math.Log(max(p.z, math.SmallestNonzeroFloat64))
	term, sum := -p.z, 0.0 // log of a term; sum of the terms
	for j := range p.blocks {
		if j > 0 {
			term += logZ - math.Log(float64(j))
		}
		sum += math.Exp(term)
	}
	return min(1, sum)
}

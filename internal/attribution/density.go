package attribution

import (
	"math"
	"math/bits"
	"time"
)

// Pauses are counted on a logarithmic scale: octaves of nanoseconds, each cut into equal
// pieces. That is as fine as pauses can be told apart, and needs no logarithm.
const (
	perOctave   = 8
	firstOctave = 9  // 512 ns: what is less counts as it
	lastOctave  = 40 // 18 minutes: what is more counts as it
	bins        = (lastOctave - firstOctave + 1) * perOctave
)

// bin is the place of a pause on the scale.
func bin(pause time.Duration) int {
	if pause < 1<<firstOctave {
		return 0
	}
	octave := bits.Len64(uint64(pause)) - 1
	if octave > lastOctave {
		return bins - 1
	}
	return (octave-firstOctave)*perOctave + int(uint64(pause)>>(octave-3))&(perOctave-1)
}

// logWidth are the logarithms of the widths of bins, in ns.
var logWidth = func() (w [bins]float32) {
	for i := range w {
		w[i] = float32(math.Log(math.Exp2(float64(firstOctave + i/perOctave - 3))))
	}
	w[0] = float32(math.Log(1<<firstOctave + 1<<(firstOctave-3)))
	return w
}()

// histogram counts pauses, with weights.
type histogram struct {
	seen   [bins]float32
	weight float32
}

func (h *histogram) add(bin int, weight float32) {
	h.seen[bin] += weight
	h.weight += weight
}

func (h *histogram) fade(keep float32) {
	for i := range h.seen {
		h.seen[i] *= keep
	}
	h.weight *= keep
}

// pauses are how long the pauses before a step are: those seen in what is settled and in
// the window, and the logarithm of the density in each bin, per ns, concluded from it.
type pauses struct {
	past, now histogram
	log       [bins]float32
}

const (
	// trustInGeneral is how many pauses the general expectation counts for.
	trustInGeneral = 2
	// narrowest and widest bound the smoothing, in bins.
	narrowest, widest = 0.5, 12
)

// conclude computes the density: a Gaussian kernel over the logarithm of the pause, as
// wide as Silverman's rule says for so many pauses, and a little of what is expected in
// general. It hands out the probabilities of the bins.
func (p *pauses) conclude(general, out *[bins]float32) {
	h := p.past
	for i, n := range p.now.seen {
		h.seen[i] += n
	}
	h.weight += p.now.weight
	*out = [bins]float32{}
	if h.weight > 0 {
		h.spread(out)
	}
	total := h.weight + trustInGeneral
	for i := range out {
		out[i] = (out[i] + trustInGeneral*general[i]) / total
		p.log[i] = float32(math.Log(float64(out[i]))) - logWidth[i]
	}
}

// spread smooths what was seen. Its sum stays the same but for what falls off the ends.
func (h *histogram) spread(out *[bins]float32) {
	width := h.bandwidth()
	radius := int(math.Ceil(3 * width))
	kernel := make([]float32, radius+1)
	sum := float32(0)
	for i := range kernel {
		kernel[i] = float32(math.Exp(-float64(i*i) / (2 * width * width)))
		sum += kernel[i]
		if i > 0 {
			sum += kernel[i]
		}
	}
	for i, n := range h.seen {
		if n == 0 {
			continue
		}
		n /= sum
		for j := max(0, i-radius); j <= min(bins-1, i+radius); j++ {
			out[j] += n * kernel[max(i-j, j-i)]
		}
	}
}

// bandwidth is 0.9 · min(σ, IQR/1.34) · n^(-1/5), in bins (Silverman 1986, eq. 3.31).
func (h *histogram) bandwidth() float64 {
	var mean, square, below float64
	quarter, three := -1, -1
	total := float64(h.weight)
	for i, n := range h.seen {
		x := float64(n)
		mean += x * float64(i)
		square += x * float64(i) * float64(i)
		below += x
		if quarter < 0 && below >= total/4 {
			quarter = i
		}
		if three < 0 && below >= total*3/4 {
			three = i
		}
	}
	mean /= total
	spread := math.Sqrt(max(0, square/total-mean*mean))
	if iqr := float64(three - quarter); iqr > 0 {
		spread = min(spread, iqr/1.34)
	}
	return min(widest, max(narrowest, 0.9*spread*math.Pow(max(1, total), -0.2)))
}

// anything is what is expected of a pause of which nothing is known: any logarithm is
// equally likely, up to the length of the scale.
var anything = func() (p [bins]float32) {
	for i := range p {
		p[i] = 1.0 / bins
	}
	return p
}()

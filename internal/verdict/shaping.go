package verdict

import (
	"math"
	"slices"
	"time"
)

// Shaped is a token bucket as it shows from outside. Bytes are those that programs see: on
// the wire come headers, 4.5 % at an MTU of 1500.
type Shaped struct {
	// Bucket is how many bytes go through above the sustained rate.
	Bucket float64
	// Burst and Sustained are the plateaus before and after the fall, bytes per second.
	Burst, Sustained float64
	// At is when the bucket was empty, from the first byte on.
	At time.Duration
}

const (
	// deepest is what a fall must leave at most, as a share. Less of a fall is common where
	// nobody shapes.
	deepest = 0.8
	// shortest is what a burst of a few bins must leave at most, and fewBins how many are
	// few: they cannot be seen to be a plateau, so the fall must be deep.
	shortest, fewBins = 0.5, 4
	// leastFloor is for how many bins the sustained rate must be seen. A stall is shorter.
	leastFloor = 10
	// A bucket gives tokens evenly: its floor scatters by no more than steady, as a share. A
	// congestion control that saws at it makes that more, up to sawing, but then the fall must
	// be to less than plain: CPUs and links that are shared by two have such scatter too,
	// and halve a rate without any bucket.
	steady, sawing, plain = 0.015, 0.15, 0.4
	// uneven is how much the burst may scatter, as a share of the fall.
	uneven = 0.35
	// aside is for what share of the time a rate may be nearer to the other plateau: next
	// to none after the fall, and some before, as of a flow that stumbles.
	asideAfter, asideBefore = 0.02, 0.2
	// farAbove is how many times the floor a burst may take any shape.
	farAbove = 2
	// mostPlateaus is how many there may be, one below the other: a peak rate, a bucket, and
	// what is left.
	mostPlateaus = 3
	// tilt is by how much the halves of a plateau may differ, as a share of the fall. Halves
	// of a straight decline differ by half of what seems to be the fall.
	tilt = 0.2
	// left is how far above the floor a bin is, as a share of the fall, that comes from the
	// bucket, and abrupt in how many bins at most that must come.
	left, abrupt = 0.1, 5
	// endsLimited is the share of time beyond which the ends are to blame.
	endsLimited = 0.5
)

// Shaping looks for a token bucket that runs empty: one fall from a plateau to another.
// bins are the bytes that arrived in each width of time, from the first byte on; the last
// bin may be a part of one. limited is the share of the time, 0 to 1, in which the
// receiver's window or the sender's buffer held the flow back, as TCP_INFO says; NaN or 0
// if that is not known.
//
// The fall is where the sum of squares around two means is least. It counts if it is deep
// enough and abrupt, and both plateaus are flat; the burst may have steps of its own, as of
// one bucket in another, and any shape if it is far above the floor. What is not found may
// still be there, behind a larger bucket or an empty one: say "none seen within" what was
// sent. And a machine that falls from one steady speed to another, once, looks the same:
// only a second look, after a rest, tells them apart.
//
// The bucket is the largest Σ(rate - sustained)·dt: the burst of the tightest arrival curve
// of that rate (Cruz, IEEE Transactions on Information Theory 1991).
func Shaping(bins []int64, width time.Duration, limited float64) (Shaped, bool) {
	if limited > endsLimited || width <= 0 || len(bins) == 0 {
		return Shaped{}, false
	}
	rates := make([]float64, len(bins)-1)
	for i := range rates {
		rates[i] = float64(bins[i]) / width.Seconds()
	}
	start := ramp(rates)
	f, ok := findFall(rates[start:], mostPlateaus)
	if !ok {
		return Shaped{}, false
	}
	end := start + f.empty
	return Shaped{
		Bucket: burst(rates[:end+1], f.after) * width.Seconds(),
		Burst:  f.before, Sustained: f.after,
		At: time.Duration(float64(width) * (float64(end) + f.above(rates[end]))),
	}, true
}

// ramp is how many bins slow start takes: those that the next one exceeds by a quarter.
func ramp(rates []float64) int {
	for i := range max(0, len(rates)-1) {
		if rates[i] >= 0.8*rates[i+1] {
			return i
		}
	}
	return 0
}

// burst is the most that a stretch has above a rate.
func burst(rates []float64, floor float64) float64 {
	most, tokens := 0.0, 0.0
	for _, r := range rates {
		// A full bucket does not get fuller.
		tokens = max(0, tokens+r-floor)
		most = max(most, tokens)
	}
	return most
}

// fall is a change from a plateau to a lower one, in bin at; the last of what was before
// comes in bin empty.
type fall struct {
	at, empty     int
	before, after float64
}

// above is how far a rate is above the floor, as a share of the fall.
func (f fall) above(rate float64) float64 {
	return min(1, max(0, (rate-f.after)/(f.before-f.after)))
}

// drained is the bin in which the bucket runs empty. A flow that stumbles while it bursts
// may have something left for the bins after the fall.
func (f fall) drained(rates []float64) int {
	last := f.at
	for last+1 < len(rates) && f.above(rates[last+1]) > left {
		last++
	}
	return last
}

// findFall looks for a fall between plateaus, of which the upper may be made of others,
// levels of plateaus in all.
func findFall(rates []float64, levels int) (fall, bool) {
	from := 0
	for range levels - 1 {
		k := lowestSquares(rates[from:])
		if k == 0 {
			break
		}
		from += k
		f, ok := fallAt(rates, from, levels)
		if ok {
			return f, true
		}
	}
	return fall{}, false
}

// fallAt judges a fall after so many bins.
func fallAt(rates []float64, k, levels int) (fall, bool) {
	// The bin in which the bucket runs empty has something of both: it is the first one
	// after the change, or the last one before.
	after := rates[min(k+1, len(rates)):]
	if len(after) < leastFloor {
		return fall{}, false
	}
	f := fall{at: k, after: Median(after)}
	before := rates[:k]
	if k > 1 && rates[k-1] < (Median(before)+f.after)/2 {
		before, f.at = rates[:k-1], k-1
	}
	f.before = Median(before)
	f.empty = f.drained(rates)
	if !f.deep(len(before)) || !f.flatFloor(after) || f.empty > f.at+abrupt {
		return fall{}, false
	}
	if f.flatBurst(before) || f.clear(before) {
		return f, true
	}
	_, stairs := findFall(before, levels-1)
	return f, stairs
}

// lowestSquares is after how many figures their mean falls, so that the squares around the
// means before and after are least; 0 if it never does.
func lowestSquares(rates []float64) int {
	total := 0.0
	for _, r := range rates {
		total += r
	}
	best, at, sum := 0.0, 0, 0.0
	for i, r := range rates[:max(0, len(rates)-1)] {
		sum += r
		n, m := float64(i+1), float64(len(rates)-i-1)
		if by := sum/n - (total-sum)/m; by > 0 && by*by*n*m > best {
			best, at = by*by*n*m, i+1
		}
	}
	return at
}

func (f fall) deep(burstBins int) bool {
	most := deepest
	if burstBins < fewBins {
		most = shortest
	}
	return f.after > 0 && f.after < most*f.before
}

func (f fall) flatFloor(after []float64) bool {
	most := steady
	if f.after < plain*f.before {
		most = sawing
	}
	return deviation(after, f.after) <= most*f.after && f.level(after) && f.aside(after, true) <= asideAfter
}

func (f fall) flatBurst(before []float64) bool {
	return len(before) < fewBins ||
		deviation(before, f.before) <= uneven*(f.before-f.after) && f.level(before) && f.aside(before, false) <= asideBefore
}

// clear tells whether nearly all of a burst is so far above the floor that its shape does
// not matter (what a CPU makes of a link that is not full yet), and it ends as high as it
// was: it does not decline towards the floor.
func (f fall) clear(before []float64) bool {
	sorted := slices.Sorted(slices.Values(before))
	end := before[max(0, len(before)-fewBins):]
	return sorted[len(sorted)/10] > farAbove*f.after && f.above(Median(end)) > 0.5
}

// aside is for what share of a plateau the rate is nearer to the other plateau than to its
// own, in the mean of two bins: what a lost segment held back for one comes with the next.
func (f fall) aside(plateau []float64, up bool) float64 {
	n := 0
	for i := range len(plateau) - 1 {
		if f.above((plateau[i]+plateau[i+1])/2) > 0.5 == up {
			n++
		}
	}
	return float64(n) / float64(len(plateau))
}

// level tells whether the halves of a plateau are of one height. Halves of a few bins are
// of any.
func (f fall) level(plateau []float64) bool {
	half := len(plateau) / 2
	if half < fewBins {
		return true
	}
	return math.Abs(Median(plateau[:half])-Median(plateau[half:])) <= tilt*(f.before-f.after)
}

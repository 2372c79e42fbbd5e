package explain

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	resamples = 2000
	// maxBlocks bounds the units that are drawn. Where there are more requests, units are
	// blocks of neighbours in time, which also keeps what neighbours have in common.
	maxBlocks = 1000
	// fewest is how many requests each side must have.
	fewest = 5
)

// confidence is the share of resamples within an interval.
const confidence = 0.95

// spread is how far resampled differences of means lie from the difference that was
// sampled.
type spread struct{ low, high float64 } // ms

// around is the interval about an estimate (the basic bootstrap interval).
func (s spread) around(estimate float64) Interval {
	if math.IsNaN(s.low) {
		return nil
	}
	return Interval{estimate - s.high, estimate - s.low}
}

// unknown is the spread of too few requests.
var unknown = spread{math.NaN(), math.NaN()}

type spreads struct {
	whole spread
	parts []spread
}

// bootstrap draws requests with replacement from both sides, many times, and looks how
// much the difference of means varies (Efron 1979): of whole requests, and of each part.
// Requests are drawn whole, so that what belongs together stays together.
//
// Where samples stand for more requests than they are, the spread shrinks with the root
// of their number. Few requests tell nothing about their spread.
func bootstrap(a, b *samples, keys []partKey) spreads {
	if a == nil || b == nil || len(a.kept) < fewest || len(b.kept) < fewest {
		return spreads{whole: unknown, parts: slices.Repeat([]spread{unknown}, len(keys))}
	}
	rng := rand.New(rand.NewPCG(3, 5))
	drawsA, drawsB := a.draws(rng, keys), b.draws(rng, keys)
	out := spreads{parts: make([]spread, len(keys))}
	differences := make([]float64, resamples)
	for column := range len(keys) + 1 {
		for i := range differences {
			differences[i] = drawsB[i][column] - drawsA[i][column]
		}
		slices.Sort(differences)
		s := spread{
			low:  differences[nearestRank(resamples, (1-confidence)/2)],
			high: differences[nearestRank(resamples, (1+confidence)/2)],
		}
		if column == 0 {
			out.whole = s
		} else {
			out.parts[column-1] = s
		}
	}
	return out
}

// draws are resampled means less the mean of the sample, in ms: whole requests in
// column 0, then a column for each key.
func (s *samples) draws(rng *rand.Rand, keys []partKey) [][]float64 {
	blocks := s.blocks(keys)
	everything := make([]float64, len(keys)+1)
	mean(everything, blocks, func(i int) int { return i })
	shrink := math.Sqrt(float64(len(s.kept)) / float64(s.population))
	draws := make([][]float64, resamples)
	for i := range draws {
		draw := make([]float64, len(keys)+1)
		mean(draw, blocks, func(int) int { return rng.IntN(len(blocks)) })
		for c := range draw {
			draw[c] = (draw[c] - everything[c]) * shrink
		}
		draws[i] = draw
	}
	return draws
}

// block is neighbouring requests: their number, and the sum of each column in ms.
type block struct {
	requests float64
	sums     []float64
}

// blocks puts samples that follow each other in time together.
func (s *samples) blocks(keys []partKey) []block {
	slices.SortFunc(s.kept, func(a, b sample) int { return cmp.Compare(a.start, b.start) })
	columns := make([]int, len(s.names))
	for i, name := range s.names {
		columns[i] = 1 + slices.Index(keys, name)
	}
	blocks := make([]block, min(len(s.kept), maxBlocks))
	for i := range s.kept {
		b := &blocks[i*len(blocks)/len(s.kept)]
		if b.sums == nil {
			b.sums = make([]float64, len(keys)+1)
		}
		b.requests++
		b.sums[0] += milliseconds(s.kept[i].duration)
		for _, p := range s.kept[i].parts {
			b.sums[columns[p.part]] += milliseconds(p.time)
		}
	}
	return blocks
}

// mean sets means to those of as many blocks as there are, chosen by pick.
func mean(means []float64, blocks []block, pick func(i int) int) {
	n := 0.0
	for i := range blocks {
		b := &blocks[pick(i)]
		n += b.requests
		for c, v := range b.sums {
			means[c] += v
		}
	}
	for c := range means {
		means[c] /= n
	}
}

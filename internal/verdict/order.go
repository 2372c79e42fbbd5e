package verdict

import (
	"slices"

	"taper.dev/taper/internal/random"
)

// Order is the order in which a round measures what there is to measure: each order
// equally likely, from the seed and the number of the round. What comes before and after
// (a neighbour's backup, a CPU that warms up) then falls on all alike (Abedi and Brecht,
// ICPE 2017: randomized multiple interleaved trials). The list itself stays as it is.
func Order[T any](round int, list []T, seed uint64) []T {
	mix := random.New(seed)
	r := random.New(mix.Next() ^ uint64(round))
	ordered := slices.Clone(list)
	random.Shuffle(r, ordered)
	return ordered
}

package verdict

import (
	"math"
	"slices"
)

// Step is one load of a sweep, and the throughput under it.
type Step struct {
	Users int
	Rate  float64
}

const (
	// doublings is over how many the growth of a plateau is looked at, and grows what more
	// than that it must not grow in them, as a share.
	doublings, grows = 2, 0.05
	// nearPeak is what share of the later peak a plateau begins with: noise is not growth.
	nearPeak = 0.9
)

// Plateau is where the throughput of a sweep (users 1, 2, 4, 8 …) stops growing: the first
// step from which on it grows less than 5 % in two doublings, with the median throughput
// over those two. It is false if it still grows, or if fewer than two doublings follow.
//
// Growth is the median of the slopes between all later steps (Theil 1950, Sen 1968), so
// that one odd step does not count.
func Plateau(steps []Step) (Step, bool) {
	rising := byUsers(steps)
	for i, s := range rising {
		tail := rising[i:]
		if tail[len(tail)-1].Users < s.Users<<doublings {
			break
		}
		if growth(tail)*doublings < math.Log1p(grows) && s.Rate >= nearPeak*peak(tail) {
			within := 0
			for within < len(tail) && tail[within].Users <= s.Users<<doublings {
				within++
			}
			return Step{Users: s.Users, Rate: Median(rates(tail[:within]))}, true
		}
	}
	return Step{}, false
}

// byUsers are the usable steps, one for each number of users, rising.
func byUsers(steps []Step) []Step {
	all := map[int][]float64{}
	for _, s := range steps {
		if s.Users > 0 && s.Users <= math.MaxInt>>doublings && usable(s.Rate) {
			all[s.Users] = append(all[s.Users], s.Rate)
		}
	}
	var rising []Step
	for users, r := range all {
		rising = append(rising, Step{users, Median(r)})
	}
	slices.SortFunc(rising, func(a, b Step) int { return a.Users - b.Users })
	return rising
}

func rates(steps []Step) []float64 {
	r := make([]float64, len(steps))
	for i, s := range steps {
		r[i] = s.Rate
	}
	return r
}

// growth is of the logarithm of throughput, per doubling of users.
func growth(steps []Step) float64 {
	var slopes []float64
	for i, a := range steps {
		for _, b := range steps[:i] {
			slopes = append(slopes, math.Log(a.Rate/b.Rate)/math.Log2(float64(a.Users)/float64(b.Users)))
		}
	}
	return Median(slopes)
}

// peak is the most that three steps beside each other have at their median.
func peak(steps []Step) float64 {
	r := rates(steps)
	if len(r) < 3 {
		return slices.Max(r)
	}
	most := 0.0
	for i := range len(r) - 2 {
		most = max(most, Median(r[i:i+3]))
	}
	return most
}

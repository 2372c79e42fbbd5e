package verdict

import (
	"math"
	"slices"
	"sort"
)

// Intervals come from ranks: whatever the distribution, the median lies between two order
// statistics with a probability that is known. So no resampling is needed. (The bootstrap
// percentile interval of a median is itself a pair of order statistics, chosen by nearly
// the same binomial: Efron 1979, section 3.)

// signRank is the largest k for which the k-th smallest and the k-th largest of n figures
// (k = 1, 2, …) hold their median between them except with probability alpha; 0 if none
// does. The count of figures below the median is binomial (n, ½).
func signRank(n int, alpha float64) int {
	return rank(binomial(n), alpha)
}

// walshRank is the same for the n(n+1)/2 means of pairs (Walsh averages) of figures that
// are symmetric about the median: the null distribution of Wilcoxon's signed-rank
// statistic (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3.3).
func walshRank(n int, alpha float64) int {
	if n <= exactRanks {
		return rank(signedRanks(n), alpha)
	}
	m := float64(n)
	return normalRank(m*(m+1)/4, m*(m+1)*(2*m+1)/24, alpha)
}

// shiftRank is the same for the n·m differences of figures of two samples: the null
// distribution of Mann and Whitney's statistic, normal with the usual variance.
func shiftRank(n, m int, alpha float64) int {
	a, b := float64(n), float64(m)
	return normalRank(a*b/2, a*b*(a+b+1)/12, alpha)
}

// exactRanks is up to how many figures the distribution of the signed-rank statistic is
// computed; with more it is normal to three digits.
const exactRanks = 50

// rank is the largest k with P(count < k) ≤ alpha/2.
func rank(probability []float64, alpha float64) int {
	sum, k := 0.0, 0
	for k < len(probability) && sum+probability[k] <= alpha/2 {
		sum += probability[k]
		k++
	}
	return k
}

func normalRank(mean, variance, alpha float64) int {
	return int(max(0, math.Floor(mean+normalQuantile(alpha/2)*math.Sqrt(variance)+0.5)))
}

// binomial is the distribution of heads in n throws.
func binomial(n int) []float64 {
	p := make([]float64, n+1)
	log := -float64(n) * math.Ln2
	for k := range p {
		p[k] = math.Exp(log)
		log += math.Log(float64(n-k)) - math.Log(float64(k+1))
	}
	return p
}

// signedRanks is the distribution of the sum of those of the ranks 1 … n that a coin picks.
func signedRanks(n int) []float64 {
	p := make([]float64, n*(n+1)/2+1)
	p[0] = 1
	for r, most := 1, 0; r <= n; r++ {
		most += r
		for s := most; s >= 0; s-- {
			p[s] /= 2
			if s >= r {
				p[s] += p[s-r] / 2
			}
		}
	}
	return p
}

// widen moves a rank away from the middle of n by what dependence asks for: at least to
// the outermost one. It is 0 if there was none before.
func widen(k, n int, factor float64) int {
	if k == 0 {
		return 0
	}
	middle := float64(n+1) / 2
	return max(1, int(math.Floor(middle-(middle-float64(k))*factor)))
}

// dependence is by what factor an interval of neighbours that are alike must be wider than
// one of independent figures: √((1+ρ)/(1-ρ)), the standard error of a first-order
// autoregression, with ρ the autocorrelation of the ranks of neighbours. A short series
// makes that look smaller than it is, by (1+3ρ)/n (Marriott and Pope, Biometrika 1954),
// which is put right. At least 1: that neighbours differ is chance.
func dependence(series []float64) float64 {
	n := len(series)
	if n < 5 {
		return 1
	}
	ranks := midRanks(series)
	mean := float64(n+1) / 2
	var with, all float64
	for i, r := range ranks {
		all += (r - mean) * (r - mean)
		if i > 0 {
			with += (r - mean) * (ranks[i-1] - mean)
		}
	}
	if all == 0 {
		return 1
	}
	rho := (with/all + 1/float64(n)) / (1 - 3/float64(n))
	rho = min(max(rho, 0), mostDependence)
	return math.Sqrt((1 + rho) / (1 - rho))
}

// mostDependence bounds the autocorrelation that is believed: beyond it a series of a few
// dozen is one slow wave, of which nothing can be concluded.
const mostDependence = 0.9

// midRanks are the ranks (1 … n) of a series, equal figures sharing theirs.
func midRanks(series []float64) []float64 {
	sorted := slices.Sorted(slices.Values(series))
	ranks := make([]float64, len(series))
	for i, v := range series {
		first := sort.SearchFloat64s(sorted, v)
		last := first + sort.Search(len(sorted)-first, func(k int) bool { return sorted[first+k] > v })
		ranks[i] = float64(first+last+1) / 2
	}
	return ranks
}

// pairsUpTo counts the pairs (i, j) with a[i] + b[j] ≤ t. Both must rise.
func pairsUpTo(a, b []float64, t float64) int {
	count, j := 0, len(b)
	for _, v := range a {
		for j > 0 && v+b[j-1] > t {
			j--
		}
		count += j
	}
	return count
}

// kth is the smallest t for which count(t) ≥ k, to 12 digits of the range: halving needs no
// memory, where all pairs of a long run would not fit.
func kth(k int, low, high float64, count func(float64) int) float64 {
	for range 40 {
		middle := low + (high-low)/2
		if middle <= low || middle >= high {
			break
		}
		if count(middle) >= k {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

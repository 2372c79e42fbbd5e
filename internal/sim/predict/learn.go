package predict

import (
	"fmt"
	"math"
	"slices"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

// knowledge is what is held to be true of the endpoints, in their order.
type knowledge struct {
	evidence balance.Evidence
	// demand is in CPU-seconds per request, 0 where nothing tells it; idle is in cores.
	demand, idle []float64
}

// usable leaves windows in which too few endpoints were measured out, and tells when too
// few windows are left, or when the newest of them is no longer about now.
func (s *Service) usable() (*Service, error) {
	kept := *s
	kept.Windows = nil
	for _, w := range s.Windows {
		measured := 0
		for _, e := range s.Endpoints {
			if _, ok := w.Samples[e.Address]; ok {
				measured++
			}
		}
		if measured > 0 && float64(measured) >= s.Policy.Coverage*float64(len(s.Endpoints)) {
			kept.Windows = append(kept.Windows, w)
		}
	}
	if n := len(kept.Windows); n < leastWindows {
		return nil, fmt.Errorf("service %q: %d of %d windows have samples of %.0f %% of its endpoints: it takes %d",
			s.Name, n, len(s.Windows), 100*s.Policy.Coverage, leastWindows)
	}
	last, newest := s.Windows[len(s.Windows)-1].End, kept.Windows[len(kept.Windows)-1].End
	if age := last.Sub(newest); age > freshWindows*s.Length {
		return nil, fmt.Errorf("service %q: its newest samples are from %s, %s before the end of what was observed: they are stale",
			s.Name, newest.Format(time.RFC3339), age)
	}
	return &kept, nil
}

// freshWindows is after how many windows without samples the last ones are stale: as many
// intervals as balance.DefaultPolicy waits.
const freshWindows = 3

// learn has balance.Decide learn from windows, given by their indices in rising order.
func (s *Service) learn(windows []int) knowledge {
	p := s.Policy
	defaults := balance.DefaultPolicy(s.Length)
	// Each window is one interval of a loop that would have read them all.
	p.Interval, p.MaxAge, p.ReleaseAfter = s.Length, defaults.MaxAge, defaults.ReleaseAfter
	var d balance.Decision
	for k, i := range windows {
		now := time.Unix(0, 0).Add(time.Duration(k+1) * s.Length)
		d = balance.Decide(balance.Input{
			Now: now, Endpoints: s.Endpoints, Snapshot: at(s.Windows[i].Samples, now), Memory: d.Memory, Policy: p,
		})
	}
	known := knowledge{
		evidence: d.Memory.Evidence,
		demand:   make([]float64, len(s.Endpoints)), idle: make([]float64, len(s.Endpoints)),
	}
	for i, v := range d.Verdicts {
		known.demand[i], known.idle[i] = v.Demand, v.Idle
	}
	return known
}

// at is a window's samples as if they had been measured at another time.
func at(samples model.Snapshot, now time.Time) model.Snapshot {
	moved := make(model.Snapshot, len(samples))
	for address, sample := range samples {
		for _, r := range []*model.Reading{&sample.CPU, &sample.Requests, &sample.InFlight} {
			if r.Known() {
				r.At = now
			}
		}
		moved[address] = sample
	}
	return moved
}

// scaled gives demands that are relative (balance.FromCPUOnly) the mean that is taken for
// a request's cost, and returns how many requests per second that makes.
func (k knowledge) scaled() (knowledge, float64) {
	rate := k.mean() / virtualDemand
	scaled := k
	scaled.demand = make([]float64, len(k.demand))
	for i, d := range k.demand {
		scaled.demand[i] = d / rate
	}
	return scaled, rate
}

// virtualDemand is what a request is taken to cost, in CPU-seconds, where nothing tells:
// ratios of latencies do not depend on it, for all times are in proportion to it.
const virtualDemand = 0.01

// mean is over the endpoints whose demand is known; 0 if there are none.
func (k knowledge) mean() float64 {
	measured := k.measured()
	var sum float64
	for _, d := range measured {
		sum += d / float64(len(measured))
	}
	return sum
}

// measured are the demands that are known.
func (k knowledge) measured() []float64 {
	return slices.DeleteFunc(slices.Clone(k.demand), func(d float64) bool { return d <= 0 })
}

// rates are the service's, per second, one per window. A window that measured only a part
// of the endpoints stands for all by the share that this part usually has.
func (s *Service) rates() []float64 {
	usual, shares := s.requests(), 0.0
	for _, rate := range usual {
		if rate > 0 { // NaN is not
			shares += rate
		}
	}
	rates := make([]float64, len(s.Windows))
	for i, w := range s.Windows {
		var sum, share float64
		for k, e := range s.Endpoints {
			if r := w.Samples[e.Address].Requests; r.Valid() && usual[k] > 0 {
				sum += r.Value
				share += usual[k] / shares
			}
		}
		rates[i] = shares
		if share >= s.Policy.Coverage && share > 0 {
			rates[i] = sum / share
		}
	}
	return steady(rates, s.Length.Seconds())
}

// requests are the endpoints' mean rates over the windows that measured them, per second;
// NaN for one that none did.
func (s *Service) requests() []float64 {
	return s.means(func(s model.Sample) model.Reading { return s.Requests })
}

func (s *Service) means(of func(model.Sample) model.Reading) []float64 {
	means := make([]float64, len(s.Endpoints))
	for k, e := range s.Endpoints {
		var sum, n float64
		for _, w := range s.Windows {
			if r := of(w.Samples[e.Address]); r.Valid() {
				sum += r.Value
				n++
			}
		}
		means[k] = sum / n
	}
	return means
}

// steady takes out of the rates' variation what is the noise of counting: arrivals that
// are independent of each other would vary by that much at a rate that does not.
func steady(rates []float64, seconds float64) []float64 {
	var mean, variance float64
	for _, r := range rates {
		mean += r / float64(len(rates))
	}
	for _, r := range rates {
		variance += (r - mean) * (r - mean) / float64(len(rates)-1)
	}
	if variance <= 0 {
		return rates
	}
	part := math.Sqrt(max(0, 1-mean/seconds/variance))
	for i := range rates {
		rates[i] = mean + part*(rates[i]-mean)
	}
	return rates
}

package scenario

import (
	"fmt"
	"maps"
	"math"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/sim"
)

const (
	// mostIntervals bounds how long weights are waited for, and mostDecided how many of them
	// are decided in that time. The published rule takes the longest, some 200 intervals.
	mostIntervals = 5000
	mostDecided   = 4_000_000
	// watched is for how many intervals weights must stay where they are, apart from
	// wandering by the part still, to be at rest.
	watched = 50
	still   = 0.01
)

// settle returns the weights at which a control loop comes to rest when it sees the truth:
// the mean demands of all servers, as if all were there at once, at the rate of the
// beginning. Nothing is left to noise, so that the dead band, which is against it, is not
// needed. What servers idle is taken from their cores.
func settle(s *sim.Service, w *sim.Weigher) ([]uint32, error) {
	in := balance.Input{Now: time.Unix(0, 0).UTC(), Policy: w.Policy}
	in.Policy.DeadBand = 0
	demands := make(map[string]float64, len(s.Servers))
	for i := range s.Servers {
		server := &s.Servers[i]
		in.Endpoints = append(in.Endpoints, model.Endpoint{Address: server.Address, Capacity: server.Cores - server.Idle})
		demands[server.Address] = server.Demand.Mean()
	}
	in.Current = w.Decide(in).Weights
	rate, checkpoint := s.Arrivals.Rate(0), in.Current
	most := min(mostIntervals, mostDecided/len(s.Servers))
	for interval := 1; interval <= most; interval++ {
		in.Now = in.Now.Add(in.Policy.Interval)
		in.Snapshot = truth(in.Current, demands, rate, in.Now)
		d := w.Decide(in)
		settled := maps.Equal(d.Weights, in.Current)
		in.Current, in.Memory = d.Weights, d.Memory
		if interval%watched == 0 {
			settled = settled || atRest(checkpoint, in.Current)
			checkpoint = in.Current
		}
		if !settled {
			continue
		}
		fixed := make([]uint32, len(s.Servers))
		for i, e := range in.Endpoints {
			fixed[i] = in.Current[e.Address]
		}
		return fixed, nil
	}
	return nil, fmt.Errorf("the weights of %d endpoints do not come to rest within %d decisions: take the loop", len(s.Servers), most)
}

// truth is what would be measured if requests followed the weights exactly and cost what
// they do in the mean.
func truth(weights model.Weights, demands map[string]float64, rate float64, now time.Time) model.Snapshot {
	snapshot := make(model.Snapshot, len(weights))
	for address, share := range weights.Shares() {
		requests := rate * share
		snapshot[address] = model.Sample{
			CPU:      model.Reading{Value: requests * demands[address], At: now},
			Requests: model.Reading{Value: requests, At: now},
		}
	}
	return snapshot
}

func atRest(before, after model.Weights) bool {
	from, to := before.Shares(), after.Shares()
	for address, share := range to {
		if math.Abs(share/from[address]-1) > still {
			return false
		}
	}
	return true
}

// Package published is the rule by which the published operator moves weights, so that it can
// be compared: each endpoint's distance from the service's mean CPU, a hundredth of it at a
// time. [Decide] takes the place of [balance.Decide].
//
// Sources: the article, Optimizing Tail Latency in a Heterogeneous Environment with Istio,
// Envoy, and a Custom Kubernetes Operator, and the operator's repository,
// liorfranko/Istio-adaptive-least-request, whose later versions have another rule. What the
// article leaves open is taken from the repository:
//
//   - Weights are whole numbers, cut off and not rounded, at each step: from 350, a weight
//     falls by at least 1 and grows only where the distance is above 28 %.
//   - A weight is moved first, kept to 100..600 then, and last of all weights are scaled so
//     that their median is 350. So a weight may end outside of the limits.
//   - A new endpoint gets the mean of the lighter half of all weights.
//   - A CPU of 0 counts as missing. An endpoint without CPU keeps its weight.
//   - Without any CPU for five minutes all weights become equal again, at once.
//   - How old a sample is does not matter.
//
// Left out is that the operator acts on the distance of the cycle before.
package published

import (
	"slices"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

const (
	least, most = 100, 600
	middle      = (least + most) / 2
	// step is the part of the relative distance that a weight is moved by.
	step = 0.01
	// nearEnough is the relative distance below which a weight is left alone.
	nearEnough = 0.05
	// forgotten is how long weights outlive the last CPU that was read.
	forgotten = 5 * time.Minute
)

// Decide turns CPU into weights. Of the policy it reads nothing, of the snapshot only CPU.
func Decide(in balance.Input) balance.Decision {
	d := balance.Decision{Weights: inherit(in), Memory: in.Memory}
	reasons := make(map[string]balance.Reason, len(in.Endpoints))
	switch mean := meanCPU(in); {
	case len(in.Endpoints) == 0:
		d.Hold = balance.Hold{Reason: balance.NoEndpoints, Message: "the service has no endpoints"}
	case in.Snapshot == nil:
		d.Hold = balance.Hold{Reason: balance.MembershipOnly, Message: "endpoints came or went; weights move with the next samples"}
	case mean > 0:
		d.Memory.CoveredAt = in.Now
		move(in, d.Weights, mean, reasons)
	default:
		d.Hold = blind(in, &d.Memory)
		if d.Hold.Reason == balance.Released {
			for address := range d.Weights {
				d.Weights[address], reasons[address] = middle, balance.Released
			}
		}
	}
	d.Verdicts = verdicts(in, d.Weights, reasons)
	return d
}

// inherit are the weights in force, and those of endpoints that are new.
func inherit(in balance.Input) model.Weights {
	weights := make(model.Weights, len(in.Endpoints))
	known := make([]uint32, 0, len(in.Endpoints))
	for _, e := range in.Endpoints {
		if w := in.Current[e.Address]; w > 0 {
			weights[e.Address] = w
			known = append(known, w)
		}
	}
	if len(weights) == len(in.Endpoints) {
		return weights
	}
	first := uint32(middle)
	if len(known) > 0 {
		slices.Sort(known)
		lighter := known[:max(1, len(known)/2)]
		var sum uint64
		for _, w := range lighter {
			sum += uint64(w)
		}
		first = uint32(sum / uint64(len(lighter)))
	}
	for _, e := range in.Endpoints {
		if weights[e.Address] == 0 {
			weights[e.Address] = first
		}
	}
	return weights
}

// cpu is an endpoint's, in cores; 0 where it is missing.
func cpu(in balance.Input, address string) float64 {
	if r := in.Snapshot[address].CPU; r.Valid() {
		return r.Value
	}
	return 0
}

// meanCPU is that of the endpoints that were measured; 0 if none was.
func meanCPU(in balance.Input) float64 {
	sum, count := 0.0, 0
	for _, e := range in.Endpoints {
		if used := cpu(in, e.Address); used > 0 {
			sum += used
			count++
		}
	}
	if count == 0 {
		return 0
	}
	return sum / float64(count)
}

// move moves the weights of all endpoints that were measured.
func move(in balance.Input, weights model.Weights, mean float64, reasons map[string]balance.Reason) {
	moved := make([]uint32, 0, len(in.Endpoints))
	for _, e := range in.Endpoints {
		used := cpu(in, e.Address)
		if used == 0 {
			reasons[e.Address] = balance.Missing
			continue
		}
		weight := float64(weights[e.Address])
		if distance := used/mean - 1; distance >= nearEnough || distance <= -nearEnough {
			weight *= 1 - step*distance
		}
		reasons[e.Address] = balance.Balanced
		switch {
		case weight <= least:
			weight, reasons[e.Address] = least, balance.AtMinShare
		case weight >= most:
			weight, reasons[e.Address] = most, balance.AtMaxShare
		}
		weights[e.Address] = uint32(weight)
		moved = append(moved, uint32(weight))
	}
	ratio := middle / float64(median(moved))
	if ratio == 1 {
		return
	}
	for _, e := range in.Endpoints {
		if reasons[e.Address] != balance.Missing {
			weights[e.Address] = uint32(float64(weights[e.Address]) * ratio)
		}
	}
}

// median is the middle of at least one weight; of two, their mean cut off.
func median(weights []uint32) uint32 {
	slices.Sort(weights)
	i := len(weights) / 2
	if len(weights)%2 == 1 {
		return weights[i]
	}
	return (weights[i-1] + weights[i]) / 2
}

// blind says what becomes of the weights when nothing was measured.
func blind(in balance.Input, memory *balance.Memory) balance.Hold {
	if memory.CoveredAt.IsZero() {
		memory.CoveredAt = in.Now
	}
	if in.Now.Sub(memory.CoveredAt) < forgotten {
		return balance.Hold{Reason: balance.Stale, Message: "no endpoint has a CPU sample"}
	}
	return balance.Hold{Reason: balance.Released, Message: "no endpoint had a CPU sample for five minutes: back to equal weights"}
}

func verdicts(in balance.Input, weights model.Weights, reasons map[string]balance.Reason) []balance.Verdict {
	var total float64
	for _, w := range weights {
		total += float64(w)
	}
	list := make([]balance.Verdict, len(in.Endpoints))
	for i, e := range in.Endpoints {
		weight := weights[e.Address]
		v := &list[i]
		*v = balance.Verdict{
			Address: e.Address, Weight: weight, Share: float64(weight) / total, Evidence: balance.FromCPUOnly,
			Capacity: e.Capacity, Age: -1, Reason: reasons[e.Address],
		}
		if r := in.Snapshot[e.Address].CPU; r.Known() {
			v.Age = max(0, in.Now.Sub(r.At))
		}
		if v.Reason == "" {
			v.Reason = balance.HeldWithDecision
		}
	}
	return list
}

package study

import (
	"fmt"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim"
)

// cast is who takes part: the endpoints, and of which kind each is.
type cast struct {
	servers []sim.Server
	kinds   []string
	kindOf  []int // by server, its place in kinds
	count   []int // by kind
}

// maxKinds is how many kinds are told apart; pictures and tables have room for a few.
const maxKinds = 50

// newCast orders kinds as they first appear. What is left when there are more than maxKinds
// makes one more.
func newCast(service *sim.Service) *cast {
	c := &cast{servers: service.Servers, kindOf: make([]int, len(service.Servers))}
	known := map[string]int{}
	for i, name := range kindNames(service) {
		k, ok := known[name]
		if !ok {
			k = min(len(known), maxKinds)
			known[name] = k
			if k == len(c.kinds) {
				c.kinds, c.count = append(c.kinds, name), append(c.count, 0)
			}
		}
		c.kindOf[i] = k
		c.count[k]++
	}
	if others := len(known) - maxKinds; others > 1 {
		c.kinds[maxKinds] = fmt.Sprintf("%d other kinds", others)
	}
	return c
}

// kindNames are the servers' kinds. Those of a kind that something happens to, and not to the
// others, are like them no more: in the mean of all nobody would see it.
func kindNames(service *sim.Service) []string {
	changed := make([]bool, len(service.Servers))
	for _, change := range service.Changes {
		changed[change.Server] = true
	}
	unchanged := map[string]bool{}
	names := make([]string, len(service.Servers))
	for i, s := range service.Servers {
		names[i] = s.Kind
		unchanged[s.Kind] = unchanged[s.Kind] || !changed[i]
	}
	for i := range names {
		if changed[i] && unchanged[names[i]] {
			names[i] += ", changed"
		}
	}
	return names
}

// sum is what the servers of each kind did.
func (c *cast) sum(r *sim.Result) []report.Kind {
	kinds := make([]report.Kind, len(c.kinds))
	latency := make([]*sim.Histogram, len(c.kinds))
	members := make([]float64, len(c.kinds)) // at the end
	for i, did := range r.Servers {
		k := c.kindOf[i]
		kind := &kinds[k]
		n := float64(c.count[k])
		kind.Requests += float64(did.Served) / r.Seconds / n
		kind.CPU += did.CPU / n
		if did.Weight > 0 {
			kind.Weight += float64(did.Weight)
			members[k]++
		}
		if latency[k] == nil {
			latency[k] = did.Latency.Clone()
		} else {
			latency[k].Add(did.Latency)
		}
	}
	for k := range kinds {
		kinds[k].Kind, kinds[k].Endpoints = c.kinds[k], c.count[k]
		kinds[k].P50, kinds[k].P99 = milliseconds*latency[k].Quantile(0.5), milliseconds*latency[k].Quantile(0.99)
		kinds[k].Weight /= max(1, members[k])
	}
	return kinds
}

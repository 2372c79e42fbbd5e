package pageload

import (
	"fmt"
	"maps"
	"slices"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// unlike is by what share pages may differ in size and still be the same page.
const unlike = 0.05

// bottleneck says which hop is full. It is nil if nothing was measured on the first way, or
// if there is nothing to compare it with that would tell.
func (s *sweeps) bottleneck() *probe.Bottleneck {
	through, direct := s.ways[0], s.ways[1:]
	if len(through.steps) == 0 {
		return nil
	}
	known := through.evidence(endedFull)
	seen := verdict.Sweeps{Through: known.rates, Served: byServer(&through.found), ClientBusy: known.busy}
	for _, w := range direct {
		seen.Direct = append(seen.Direct, w.evidence(endedFull).rates)
	}
	full := verdict.Bottleneck(seen)
	if full.Hop != verdict.Client {
		if reason := s.doubt(full.Hop, len(seen.Served)); reason != "" {
			full = verdict.Full{Hop: verdict.NoneSeen, Reasons: []string{reason}}
		}
	}
	if full.Hop == verdict.NoneSeen && len(direct) == 0 {
		return nil
	}
	return &probe.Bottleneck{Hop: string(full.Hop), Sentence: full.Sentence()}
}

// doubt is why a hop cannot be named after all; empty if it can.
func (s *sweeps) doubt(hop verdict.Hop, servers int) string {
	through, known, clientFull := s.ways[0], 0, false
	for _, w := range s.ways[1:] {
		if len(w.steps) > 0 {
			known++
		}
		clientFull = clientFull || w.evidence(endedFull).clientFull()
		if w.plan != nil && differ(w.plan.bytes, through.plan.bytes) {
			return fmt.Sprintf("%s has another page, of %d bytes where %s has %d: they cannot be compared",
				w.Name, w.plan.bytes, through.Name, through.plan.bytes)
		}
	}
	if hop != verdict.Backends {
		return ""
	}
	if clientFull {
		return "past the balancer this machine was full before the backends were: they may give more than was seen"
	}
	// Were there more backends, they could give more.
	if missing := len(s.ways) - 1 - known; missing > 0 {
		return fmt.Sprintf("%d of %d backends could not be measured past the balancer: with them there may be more to give", missing, len(s.ways)-1)
	}
	if servers > known {
		return fmt.Sprintf("%d servers answer through the balancer, and %d of them were measured past it", servers, known)
	}
	return ""
}

func differ(a, b int64) bool { return float64(max(a, b)-min(a, b)) > unlike*float64(max(a, b)) }

// byServer is what each server gave when there were most users.
func byServer(t *probe.PageTarget) [][]int64 {
	last := t.Steps[len(t.Steps)-1].Served
	var lists [][]int64
	for _, name := range slices.Sorted(maps.Keys(last)) {
		lists = append(lists, last[name])
	}
	return lists
}

package policy

import (
	"fmt"
	"strings"

	"taper.dev/taper/internal/sim"
)

// Kind is a policy that arms can have.
type Kind struct {
	Name string
	// About says in a sentence how it chooses, Source where it is from.
	About, Source string
	New           sim.NewPolicy
	// Bound is one that knows what no proxy can: what it reaches is what is left to gain.
	Bound bool
	// What it keeps, in bytes: for each pair of a proxy and a server, for each proxy and
	// for each server. It is an upper bound: some of it is kept only for unequal weights.
	BytesPerPair, BytesPerProxy, BytesPerServer int
}

// All lists the policies.
var All = []Kind{
	{
		Name:           "random",
		About:          "any endpoint, in proportion to weight",
		Source:         "Envoy's RANDOM; weights by Walker's alias method",
		New:            newRandom,
		BytesPerServer: memberBytes + lotteryBytes,
	},
	{
		Name:           "round-robin",
		About:          "one endpoint after the other, more often those of more weight",
		Source:         "Envoy's ROUND_ROBIN: edf_scheduler.h, round_robin_lb.h",
		New:            newRoundRobin,
		BytesPerPair:   turnBytes,
		BytesPerProxy:  rotationBytes,
		BytesPerServer: memberBytes,
	},
	{
		Name:           "least-request",
		About:          "the one of two with fewer of this proxy's requests under way; with unequal weights a schedule of weight/(requests+1)",
		Source:         "Envoy's LEAST_REQUEST: least_request_lb.cc, edf_scheduler.h",
		New:            EnvoyLeastRequest.New,
		BytesPerPair:   turnBytes + activeBytes,
		BytesPerProxy:  scheduleBytes,
		BytesPerServer: memberBytes + weightBytes,
	},
	{
		Name:           "client-side-wrr",
		About:          "round robin by weights of the endpoints' own reports: requests per second over utilization",
		Source:         "gRFC A58 and Envoy's client_side_weighted_round_robin: orca_weight_manager.cc",
		New:            newClientSideWRR,
		BytesPerPair:   turnBytes + reportBytes,
		BytesPerProxy:  clientSideBytes,
		BytesPerServer: memberBytes + weightBytes,
	},
	{
		Name:           "peak-ewma",
		About:          "the one of two with the lower decaying peak of latency, times this proxy's requests under way and one",
		Source:         "Finagle's PeakEwma.scala; Linkerd's balancer",
		New:            newPeakEWMA,
		BytesPerPair:   peakBytes,
		BytesPerServer: memberBytes + lotteryBytes,
	},
	{
		Name:           "prequal",
		About:          "of a pool of probe answers, the lowest latency among those with few requests in flight",
		Source:         "Wydrowski, Kleinberg, Rumble and Archer, Load is not what you should balance: Introducing Prequal, NSDI 2024",
		New:            newPrequal,
		BytesPerProxy:  poolBytes,
		BytesPerServer: memberBytes + lotteryBytes + responderBytes,
	},
	{
		Name:           "join-shortest-queue",
		About:          "the endpoint with the fewest requests of all proxies in flight; nobody knows them all",
		Source:         "Winston, Optimality of the shortest line discipline, Journal of Applied Probability 14, 1977",
		New:            newShortestQueue,
		Bound:          true,
		BytesPerServer: memberBytes,
	},
	{
		Name:           "all-knowing",
		About:          "the endpoint that a mean request would leave first; nobody can know that",
		Source:         "shortest expected delay: Selen, Adan, Kapodistria and van Leeuwaarden, Steady-state analysis of shortest expected delay routing, Queueing Systems 84, 2016",
		New:            newAllKnowing,
		Bound:          true,
		BytesPerServer: memberBytes,
	},
}

// Find is the policy of that name; the error lists the known ones.
func Find(name string) (Kind, error) {
	known := make([]string, len(All))
	for i, k := range All {
		if k.Name == name {
			return k, nil
		}
		known[i] = k.Name
	}
	return Kind{}, fmt.Errorf("unknown policy %q: it is one of %s", name, strings.Join(known, ", "))
}

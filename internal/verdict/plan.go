package verdict

import (
	"fmt"
	"math/bits"
	"slices"

	"taper.dev/taper/internal/random"
)

// Pair is two agents, by their places in a list: From sends and To receives, or From asks
// and To answers.
type Pair struct{ From, To int }

// Round is what may be measured at the same time: no agent is in two pairs.
type Round []Pair

// What a plan can be made for.
const (
	// FewestAgents and MostAgents bound a matrix.
	FewestAgents, MostAgents = 2, 10_000
	// allPairs is up to how many agents each pair is measured.
	allPairs = 10
	// mostPlan bounds the rounds for more agents than that.
	mostPlan = 9
)

// Plan is one direction of a matrix of n agents: rounds of disjoint pairs, no pair twice,
// either way round. Who wants the other direction turns all pairs round.
//
// Up to 10 agents there are all pairs, by the circle method (as in chess tournaments:
// Kirkman 1847), which takes n-1 rounds, or n if one must sit out. For more, ⌈log₂ n⌉ of
// those rounds, at most 9, from a random seating. Everyone sends as often as it receives,
// but for one or two rounds.
func Plan(n int, seed uint64) ([]Round, error) {
	if n < FewestAgents || n > MostAgents {
		return nil, fmt.Errorf("a matrix of %d agents is not possible: there must be %d to %d", n, FewestAgents, MostAgents)
	}
	seats := n + n%2 // at an empty one, one sits out
	rounds := make([]int, seats-1)
	for i := range rounds {
		rounds[i] = i
	}
	r := random.New(seed)
	seating := shuffled(r, n)
	if n > allPairs {
		random.Shuffle(r, rounds)
		rounds = rounds[:min(mostPlan, bits.Len(uint(n-1)))]
	}
	plan := make([]Round, len(rounds))
	for i, round := range rounds {
		plan[i] = circle(seats, n, round, seating)
	}
	for i := 0; i < len(plan); i += 2 {
		balance(plan[i:min(i+2, len(plan))], n, r)
	}
	return plan, nil
}

func shuffled(r *random.Source, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	random.Shuffle(r, list)
	return list
}

// circle is one round of the circle method: the last seat stays, the others turn by one
// each round, and opposite seats meet.
func circle(seats, n, round int, seating []int) Round {
	turning := seats - 1
	pairs := make(Round, 0, seats/2)
	add := func(a, b int) {
		if a < n && b < n {
			pairs = append(pairs, Pair{seating[a], seating[b]})
		}
	}
	add(round, turning)
	for i := 1; i < seats/2; i++ {
		add((round+i)%turning, (round-i+turning)%turning)
	}
	return pairs
}

// balance turns pairs of one or two rounds so that who sends in one receives in the other.
// Pairs of two rounds form rings and chains, in which the rounds take turns: each is walked
// along its pairs, all of which then point the same way.
func balance(rounds []Round, n int, r *random.Source) {
	at := make([][]place, n) // in which pairs an agent is
	for i, round := range rounds {
		for j, p := range round {
			at[p.From] = append(at[p.From], place{i, j})
			at[p.To] = append(at[p.To], place{i, j})
		}
	}
	walked := map[place]bool{}
	walk := func(agent int) {
		for {
			next := slices.IndexFunc(at[agent], func(p place) bool { return !walked[p] })
			if next < 0 {
				return
			}
			where := at[agent][next]
			walked[where] = true
			p := &rounds[where.round][where.pair]
			if p.From != agent {
				p.From, p.To = p.To, p.From
			}
			agent = p.To
		}
	}
	// Chains first, from their ends: a walk from the middle would leave a part behind.
	for _, ends := range []bool{true, false} {
		for _, agent := range shuffled(r, n) {
			if !ends || len(at[agent]) < len(rounds) || len(rounds) == 1 {
				walk(agent)
			}
		}
	}
}

// place is where a pair is: in which round, and where in it.
type place struct{ round, pair int }

// Sample is pairs whose latency is measured, which is the same both ways round: each agent
// asks perAgent others (fewer if there are not as many), none of which asks it. Everyone
// is asked as often as it asks, but for one.
func Sample(n, perAgent int, seed uint64) ([]Pair, error) {
	if n < FewestAgents || n > MostAgents {
		return nil, fmt.Errorf("a matrix of %d agents is not possible: there must be %d to %d", n, FewestAgents, MostAgents)
	}
	if perAgent < 1 {
		return nil, fmt.Errorf("%d pairs per agent are not possible: there must be at least 1", perAgent)
	}
	r := random.New(seed)
	seating := shuffled(r, n)
	// At a round table, everyone asks who sits so many seats further; half round the table
	// is the same distance both ways, so that half of them ask.
	distances := shuffled(r, n/2)
	var pairs []Pair
	for _, d := range distances[:min(perAgent, len(distances))] {
		d++
		asking := n
		if 2*d == n {
			asking = n / 2
		}
		for i := range asking {
			pairs = append(pairs, Pair{seating[i], seating[(i+d)%n]})
		}
	}
	return pairs, nil
}

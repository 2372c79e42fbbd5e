package sim_test

import (
	"context"
	"slices"
	"testing"

	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

// only sends everything to one server.
type only int

func (o only) Assign([]int, []uint32)    {}
func (o only) Pick(int) int              { return int(o) }
func (o only) Done(int, int, sim.Answer) {}

func toFirst(sim.Setting) sim.Policy { return only(0) }

// split sends each request to any member alike.
type split struct {
	chance  *random.Source
	members []int
}

func newSplit(s sim.Setting) sim.Policy { return &split{chance: s.Random} }

func (s *split) Assign(endpoints []int, _ []uint32) { s.members = append(s.members[:0], endpoints...) }
func (s *split) Pick(int) int                       { return s.members[s.chance.Below(len(s.members))] }
func (s *split) Done(int, int, sim.Answer)          {}

// inTurn sends requests to one member after the other.
type inTurn struct {
	members []int
	picked  int
}

func newInTurn(sim.Setting) sim.Policy { return &inTurn{} }

func (p *inTurn) Assign(endpoints []int, _ []uint32) {
	p.members = append(p.members[:0], endpoints...)
}

func (p *inTurn) Pick(int) int {
	p.picked++
	return p.members[(p.picked-1)%len(p.members)]
}

func (p *inTurn) Done(int, int, sim.Answer) {}

// noted is a policy whose calls are written down.
type noted struct {
	sim.Policy
	world    sim.World
	assigned []assignment
	picks    []pick
	ends     []end
}

type assignment struct {
	At        float64
	Endpoints []int
	Weights   []uint32
}

type pick struct {
	At            float64
	Proxy, Server int
}

type end struct {
	At            float64
	Proxy, Server int
	Answer        sim.Answer
}

// noting makes a policy and writes its calls down into n.
func noting(n *noted, made sim.NewPolicy) sim.NewPolicy {
	return func(s sim.Setting) sim.Policy {
		*n = noted{Policy: made(s), world: s.World}
		return n
	}
}

func (n *noted) Assign(endpoints []int, weights []uint32) {
	n.assigned = append(n.assigned, assignment{n.world.Now(), slices.Clone(endpoints), slices.Clone(weights)})
	n.Policy.Assign(endpoints, weights)
}

func (n *noted) Pick(proxy int) int {
	server := n.Policy.Pick(proxy)
	n.picks = append(n.picks, pick{n.world.Now(), proxy, server})
	return server
}

func (n *noted) Done(proxy, server int, a sim.Answer) {
	n.ends = append(n.ends, end{n.world.Now(), proxy, server, a})
	n.Policy.Done(proxy, server, a)
}

// run simulates; a series of one step does where none is looked at.
func run(t testing.TB, trial sim.Trial) *sim.Result {
	t.Helper()
	trial.Steps = max(1, trial.Steps)
	r, err := sim.Run(context.Background(), trial)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

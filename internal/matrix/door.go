package matrix

import (
	"context"
	"fmt"
	"strings"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
)

// identity tells agents apart by what they say of themselves.
type identity struct{ name, node string }

func identityOf(h probe.Host) identity { return identity{h.Name, h.Node} }

func (i identity) String() string {
	if i.node == "" || i.node == i.name {
		return fmt.Sprintf("%q", i.name)
	}
	return fmt.Sprintf("%q on %q", i.name, i.node)
}

// know notes what agents say of themselves, once they were reached.
func (r *run) know() {
	r.known = map[identity][]int{}
	for i, w := range r.rows {
		for _, s := range w.stations() {
			if !s.here() {
				continue
			}
			who := identityOf(s.conn.Host())
			if rows := r.known[who]; len(rows) == 0 || rows[len(rows)-1] != i {
				r.known[who] = append(rows, i)
			}
		}
	}
}

// find is the agent that is known by what it says of itself.
func (r *run) find(who identity) (int, error) {
	switch rows := r.known[who]; len(rows) {
	case 0:
		return 0, fmt.Errorf("%v answers, which is none of the agents", who)
	case 1:
		return rows[0], nil
	default:
		return 0, fmt.Errorf("%v answers, and both %s and %s are called so: start them with names of their own (--node)",
			who, r.rows[rows[0]].Name, r.rows[rows[1]].Name)
	}
}

// knocking is how long it takes to see who answers behind a service.
const knocking = 20 * time.Millisecond

// openDoors finds out to whom shared services lead from each agent. Nobody knows before one
// has asked, and it stays so by session affinity.
func (r *run) openDoors(ctx context.Context) error {
	if len(r.Services) == 0 {
		return nil
	}
	r.progress("asking who answers behind " + strings.Join(r.Services, ", "))
	doors := make([]visit, len(r.rows))
	why := make([]string, len(r.rows))
	reached := r.reached()
	each(reached, func(i int) { doors[i], why[i] = r.knock(ctx, i) })
	closed, example := 0, ""
	for _, i := range reached {
		if why[i] == "" {
			r.doors = append(r.doors, doors[i])
			continue
		}
		closed++
		example = r.rows[i].Name + ": " + why[i]
	}
	if closed > 0 && ctx.Err() == nil {
		r.notes = append(r.notes, fmt.Sprintf("From %d of %d agents no service leads to another one (%s).", closed, len(reached), example))
	}
	return nil
}

// knock tries the shared services from one agent until one leads to another, or says why
// none does.
func (r *run) knock(ctx context.Context, from int) (found visit, why string) {
	near := r.rows[from].on(probe.ServicePath)
	if !near.here() {
		return visit{}, "it cannot be asked on the path that leads to services"
	}
	spec := r.latency()
	spec.Duration = knocking
	found = visit{from: from, tests: []probe.Spec{r.bandwidth()}}
	if r.LatencyPairs > 0 {
		found.tests = append(found.tests, r.latency())
	}
	for _, found.door = range r.Services {
		if ctx.Err() != nil {
			return visit{}, "interrupted"
		}
		t, err := near.conn.Delegate(ctx, agent.Target{Address: found.door}, spec)
		if err == nil && t.FarHost == nil {
			err = errNameless
		}
		if err == nil {
			found.to, err = r.find(identityOf(*t.FarHost))
		}
		switch {
		case err != nil:
			why = fmt.Sprintf("%s: %v", found.door, err)
		case found.to == from:
			why = found.door + " leads back to it"
		default:
			return found, ""
		}
	}
	return visit{}, why
}

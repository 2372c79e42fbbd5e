package scenario

import (
	"fmt"
	"strings"

	"taper.dev/taper/internal/sim"
)

// changes are what happens to endpoints.
func (r *reader) changes(servers []sim.Server) ([]sim.Change, error) {
	addresses, kinds := map[string][]int{}, map[string][]int{}
	if len(r.Changes) > 0 {
		for i := range servers {
			addresses[servers[i].Address] = []int{i}
			kinds[servers[i].Kind] = append(kinds[servers[i].Kind], i)
		}
	}
	var changes []sim.Change
	for i := range r.Changes {
		path, c := fmt.Sprintf("changes[%d]", i), &r.Changes[i]
		change, err := r.change(path, c)
		if err != nil {
			return nil, err
		}
		whom := addresses[c.Endpoint]
		if c.Kind != "" {
			whom = kinds[c.Kind]
		}
		if len(whom) == 0 {
			return nil, r.nobody(path, c, servers)
		}
		if len(changes)+len(whom) > maxChanges {
			return nil, r.Errorf(path, "makes more than %d changes, of which each endpoint of a kind is one", maxChanges)
		}
		for _, change.Server = range whom {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

// nobody is the error of a change that names no endpoint.
func (r *reader) nobody(path string, c *changeText, servers []sim.Server) error {
	var kinds []string
	for i := range servers {
		if i == 0 || servers[i].Kind != servers[i-1].Kind {
			kinds = append(kinds, servers[i].Kind)
		}
	}
	const most = 10
	if len(kinds) > most {
		kinds = append(kinds[:most], "…")
	}
	list := strings.Join(kinds, ", ")
	if c.Kind != "" {
		return r.Errorf(path+".kind", "is %q, and no endpoint is: kinds are %s", c.Kind, list)
	}
	return r.Errorf(path+".endpoint", "is %q, and no endpoint is: they are named KIND-NUMBER, such as %s; kinds are %s", c.Endpoint, servers[0].Address, list)
}

func (r *reader) change(path string, c *changeText) (sim.Change, error) {
	change := sim.Change{At: float64(c.At), Until: float64(c.Until), Down: c.Down}
	if (c.Endpoint == "") == (c.Kind == "") {
		return change, r.Errorf(path, "takes exactly one of endpoint and kind")
	}
	if c.Demand == nil && c.Stolen == nil && !c.Down {
		return change, r.Errorf(path, "changes nothing: it takes demand (a factor), stolen (cores) or down: true")
	}
	if err := r.lasts(path, "at", c.At, c.Until); err != nil {
		return change, err
	}
	if c.Demand != nil {
		if change.Demand = *c.Demand; !(change.Demand > 0 && change.Demand <= maxFactor) {
			return change, r.Errorf(path+".demand", "is %g: it takes what costs are multiplied by, above 0 and up to %d", change.Demand, maxFactor)
		}
	}
	change.Stolen = value(c.Stolen, 0)
	return change, r.within([]limit{{path + ".stolen", change.Stolen, 0, maxCores}})
}

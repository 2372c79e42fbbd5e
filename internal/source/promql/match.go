package promql

import (
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"taper.dev/taper/internal/model"
)

const (
	// mostNames is how many names an endpoint may go by.
	mostNames = 3
	// few is how many of many names an error shows.
	few = 3
	// maxTime, in Unix seconds, is a thousand years off: what lies above is no time.
	maxTime = 1e11
)

// directory knows which endpoint a name is of. Each name has a slot, a number from
// 0 on, under which readings are kept.
type directory struct {
	endpoints  []model.Endpoint
	slots      map[string]int32
	namespaces []string // sorted; none without a namespace label
	// candidates are the slots of each endpoint's names, the most telling first; -1
	// for a name that it shares with another.
	candidates [][mostNames]int32
}

func newDirectory(endpoints []model.Endpoint, namespaced bool) *directory {
	d := &directory{
		endpoints:  endpoints,
		slots:      make(map[string]int32, len(endpoints)),
		candidates: make([][mostNames]int32, len(endpoints)),
	}
	if namespaced {
		d.addPods()
	} else {
		d.addNames()
	}
	return d
}

// addPods enters "namespace/pod". Endpoints of one pod, which are its ports, share
// its readings.
func (d *directory) addPods() {
	namespaces := map[string]bool{}
	for i, e := range d.endpoints {
		d.candidates[i] = [mostNames]int32{-1, -1, -1}
		namespace, pod, ok := strings.Cut(e.Name, "/")
		if !ok || namespace == "" || pod == "" {
			continue
		}
		namespaces[namespace] = true
		d.candidates[i][0] = d.slot(e.Name)
	}
	d.namespaces = slices.Sorted(maps.Keys(namespaces))
}

// addNames enters all that labels may call the endpoints. A name that two of them
// have is neither's, unless it is the address.
func (d *directory) addNames() {
	claims := map[string]int{}
	counted := map[string]bool{}
	for _, e := range d.endpoints {
		if counted[e.Address] {
			continue // it is behind two services
		}
		counted[e.Address] = true
		for _, name := range names(e) {
			claims[name]++
		}
	}
	for i, e := range d.endpoints {
		d.candidates[i] = [mostNames]int32{-1, -1, -1}
		for k, name := range names(e) {
			slot := d.slot(name)
			if claims[name] == 1 || name == e.Address {
				d.candidates[i][k] = slot
			}
		}
	}
}

func (d *directory) slot(name string) int32 {
	slot, ok := d.slots[name]
	if !ok {
		slot = int32(len(d.slots))
		d.slots[name] = slot
	}
	return slot
}

// names returns what a label may call the endpoint, the most telling first.
func names(e model.Endpoint) []string {
	all := []string{e.Address}
	if e.Name != "" && e.Name != e.Address {
		all = []string{e.Name, e.Address}
	}
	if host, _, err := net.SplitHostPort(e.Address); err == nil && host != e.Name {
		all = append(all, host)
	}
	return all
}

// snapshot puts the readings of all metrics together, which are means over the window.
func (d *directory) snapshot(found [quantities]*readings, window time.Duration) model.Snapshot {
	snapshot := make(model.Snapshot, len(d.endpoints))
	for i, e := range d.endpoints {
		sample := model.Sample{Window: window}
		for q, to := range [quantities]*model.Reading{cpu: &sample.CPU, requests: &sample.Requests, inFlight: &sample.InFlight} {
			if found[q] != nil {
				*to = found[q].of(d.candidates[i])
			}
		}
		if sample.CPU.Known() || sample.Requests.Known() || sample.InFlight.Known() {
			snapshot[e.Address] = sample
		}
	}
	return snapshot
}

// readings are what one answer says of the endpoints in a directory. Of other
// series only what an error tells of them is kept.
type readings struct {
	dir   *directory
	scale float64
	slots []slot
	name  []byte // reused

	values     int // series in the value half
	matched    int // of them, those with the name of an endpoint
	incomplete int // of them, those that lack a label, with a namespace label only
	strangers  []string
}

// slot is what was said under one name.
type slot struct {
	value, at         float64 // at is in Unix seconds
	hasValue, hasTime bool
}

func newReadings(dir *directory, scale float64) *readings {
	return &readings{dir: dir, scale: scale, slots: make([]slot, len(dir.slots))}
}

// take enters one series of an answer, whose labels are those of grouping.answered.
func (r *readings) take(s *series) error {
	if len(s.labels) == 0 {
		return nil // a scalar, which the answer's type is judged by
	}
	kind, names := string(s.labels[0]), s.labels[1:]
	r.name = append(r.name[:0], names[0]...)
	if len(names) > 1 {
		r.name = append(append(r.name, '/'), names[1]...)
	}
	number, known := r.dir.slots[string(r.name)]
	switch kind {
	case kindValue:
		r.count(names, known)
		if !known {
			return nil
		}
		if r.slots[number].hasValue {
			return fmt.Errorf("%q is there twice; want each endpoint once", bounded(string(r.name)))
		}
		r.slots[number].value, r.slots[number].hasValue = s.value*r.scale, true
	case kindTime:
		if known && s.value > 0 && s.value < maxTime {
			r.slots[number].at, r.slots[number].hasTime = s.value, true
		}
	default:
		return fmt.Errorf("a series has the label %s=%q; want %s or %s: does something between here and the store change labels?", kindLabel, bounded(kind), kindValue, kindTime)
	}
	return nil
}

// count keeps the books on whose series there are.
func (r *readings) count(names [][]byte, known bool) {
	r.values++
	switch {
	case known:
		r.matched++
	case len(names) > 1 && (len(names[0]) == 0 || len(names[1]) == 0):
		r.incomplete++
	}
	if !known && len(r.strangers) < few {
		r.strangers = append(r.strangers, fmt.Sprintf("%q", bounded(string(r.name))))
	}
}

// foreign tells whether there are series and none is of an endpoint.
func (r *readings) foreign() bool { return r.values > 0 && r.matched == 0 }

// unlabelled tells whether there are series and all of them lack a label.
func (r *readings) unlabelled() bool { return r.values > 0 && r.incomplete == r.values }

// unknown is the error about readings that are foreign.
func (r *readings) unknown(g grouping) error {
	says := strings.Join(r.strangers, ", ")
	if more := r.values - len(r.strangers); more > 0 {
		says = fmt.Sprintf("%s and %d more", says, more)
	}
	if g.namespaced() {
		pod := slices.IndexFunc(r.dir.candidates, func(c [mostNames]int32) bool { return c[0] >= 0 })
		return fmt.Errorf("labels %q and %q name none of the endpoints: they say %s; want names such as %q", g.namespace, g.endpoint, says, r.dir.endpoints[pod].Name)
	}
	return fmt.Errorf("label %q names none of the endpoints: it says %s; want %s", g.endpoint, says, strings.Join(names(r.dir.endpoints[0]), " or "))
}

// of returns the reading under the first name that has both value and time.
func (r *readings) of(candidates [mostNames]int32) model.Reading {
	for _, number := range candidates {
		if number < 0 {
			continue
		}
		if s := r.slots[number]; s.hasValue && s.hasTime {
			return model.Reading{Value: s.value, At: time.UnixMilli(int64(math.Round(s.at * 1000)))}
		}
	}
	return model.Reading{}
}

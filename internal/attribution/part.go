package attribution

import "slices"

// Parts are the request's slices summed by cause and peer, in the order of Causes and then
// of appearance. Their durations add up to the request's. A link whose time is all told
// by others has a part without duration.
func (r *Request) Parts() []Part {
	type key struct {
		cause Cause
		peer  string
	}
	var parts []Part
	at := map[key]int{}
	part := func(c Cause, peer string) *Part {
		k := key{c, peer}
		i, ok := at[k]
		if !ok {
			i = len(parts)
			at[k] = i
			parts = append(parts, Part{Cause: c, Peer: peer})
		}
		return &parts[i]
	}
	connected := map[int]bool{}
	for i := range r.Slices {
		s := &r.Slices[i]
		p := part(s.Cause, s.Peer)
		p.Duration += s.To.Sub(s.From)
		switch {
		case s.Cause == Retransmit:
			p.Calls++
		case s.Cause == Connect && !connected[s.Link]:
			connected[s.Link] = true
			p.Calls++
		}
	}
	for i := range r.Links {
		part(r.Links[i].Cause, r.Links[i].Peer).Calls++
	}
	slices.SortStableFunc(parts, func(a, b Part) int {
		return slices.Index(causeOrder[:], a.Cause) - slices.Index(causeOrder[:], b.Cause)
	})
	return parts
}

package explain

import (
	"taper.dev/taper/internal/attribution"
)

// splitter sums requests' slices by cause and peer. Its memory is used again for each
// request.
type splitter struct {
	parts []attribution.Part
	// ofLink is the index of each link's part.
	ofLink []int
	index  map[partKey]int // of parts, once they are many
	shown  map[showing]bool
}

// few is up to how many things are looked for one by one: a map is slower.
const few = 16

// showing tells repetitions of one slice, cut by something more particular, from
// another handshake or another loss.
type showing struct {
	partKey
	link    int
	packets [2]uint64
}

// split sets parts to those of a request. They add up to its duration. A call that
// others hid has a part without time.
func (s *splitter) split(r *attribution.Request) {
	s.parts, s.ofLink = s.parts[:0], s.ofLink[:0]
	clear(s.index)
	clear(s.shown)
	for i := range r.Links {
		at := s.at(partKey{r.Links[i].Cause, r.Links[i].Peer})
		s.parts[at].Calls++
		s.ofLink = append(s.ofLink, at)
	}
	for i := range r.Slices {
		slice := &r.Slices[i]
		key := partKey{slice.Cause, slice.Peer}
		p := &s.parts[s.at(key)]
		p.Duration += slice.To.Sub(slice.From)
		// Handshakes and repetitions are no links of their own.
		if slice.Cause != attribution.Connect && slice.Cause != attribution.Retransmit {
			continue
		}
		if show := (showing{key, slice.Link, slice.Packets}); !s.shown[show] {
			s.show(show)
			p.Calls++
		}
	}
}

func (s *splitter) show(show showing) {
	if s.shown == nil {
		s.shown = map[showing]bool{}
	}
	s.shown[show] = true
}

func (s *splitter) at(key partKey) int {
	for i := range s.parts[:min(len(s.parts), few)] {
		if p := &s.parts[i]; p.Peer == key.peer && p.Cause == key.cause {
			return i
		}
	}
	at, known := s.index[key]
	if known {
		return at
	}
	at = len(s.parts)
	s.parts = append(s.parts, attribution.Part{Cause: key.cause, Peer: key.peer})
	if at >= few {
		if s.index == nil {
			s.index = map[partKey]int{}
		}
		s.index[key] = at
	}
	return at
}

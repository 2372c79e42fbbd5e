package sim

import "math"

// departures finds the server that will be done first: a tournament in which each match is
// won by the earlier one, so that a change of one server replays only the matches on its way
// up.
type departures struct {
	// times are by server, filled up to a power of two.
	times []float64
	// winners[1] is the server that is first of all; 2i and 2i+1 play for i.
	winners []int32
}

func newDepartures(servers int) *departures {
	size := 1
	for size < servers {
		size *= 2
	}
	d := &departures{times: make([]float64, size), winners: make([]int32, 2*size)}
	for i := range d.times {
		d.times[i] = math.Inf(1)
		d.winners[size+i] = int32(i)
	}
	for i := size - 1; i > 0; i-- {
		d.winners[i] = d.winners[2*i]
	}
	return d
}

// first is the server that will be done first, and when.
func (d *departures) first() (server int32, at float64) {
	server = d.winners[1]
	return server, d.times[server]
}

// set is when a server will be done.
func (d *departures) set(server int32, at float64) {
	d.times[server] = at
	winner := server
	for i := (len(d.times) + int(server)) / 2; i > 0; i /= 2 {
		left, right := d.winners[2*i], d.winners[2*i+1]
		winner = left
		if d.times[right] < d.times[left] {
			winner = right
		}
		d.winners[i] = winner
	}
}

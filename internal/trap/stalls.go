package trap

import (
	"cmp"
	"net/netip"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// fewStalls happen on any network: packets are lost, buffers fill. One that lasts as long
// as waitsLong counts alone.
const fewStalls = 3

// stallNoise is how many stalls a packet networks have that nobody complains of.
const stallNoise = 1e-5

// stalls adds up one kind of lost time on connections; rules embed it.
type stalls struct {
	n       uint64
	lost    time.Duration
	longest time.Duration
	// ends counts the stalls by whose fault it was.
	ends     table[fault, uint64]
	conns    recent[uint64]
	peers    peers
	waits    waits
	charge   charge
	evidence evidence
}

// fault is who held a connection up: a server, or a client of it.
type fault struct {
	server netip.AddrPort
	side   capture.Side
}

func newStalls() stalls {
	return stalls{ends: newTable[fault, uint64](maxPeers), conns: newRecent[uint64](waitingConns), peers: newPeers(), waits: newWaits()}
}

// take counts a stall for which one side is to blame.
func (s *stalls) take(x *capture.Stall, blame capture.Side) {
	s.n++
	s.lost += x.Duration()
	s.longest = max(s.longest, x.Duration())
	if n := s.ends.at(fault{x.Conn.Addr[capture.Server], blame}); n != nil {
		*n++
	}
	s.conns.add(x.Conn.ID)
	s.waits.add(x.Conn.ID, x.From.Time, x.To.Time)
	s.evidence.add(x.From.Packet, x.To.Packet)
}

// Request charges it what its connections lost.
func (s *stalls) Request(r *attribution.Request) {
	if s.n == 0 {
		return
	}
	lost, calls := s.waits.of(r)
	if lost > 0 {
		for i := range r.Links {
			s.peers.name(r.Links[i].Exchange.Server(), r.Links[i].Peer)
		}
	}
	s.charge.add(lost, calls)
}

// enough says whether it happened more often, or longer, than on any network.
func (s *stalls) enough(scene Scene) bool {
	return (s.n >= fewStalls || s.longest >= waitsLong) && float64(s.n) >= stallNoise*float64(scene.Stats.Packets)
}

// worst is who is to blame most often, in words, and how often.
func (s *stalls) worst() (who string, times uint64) {
	f, times := most(s.ends, func(a, b fault) int {
		return cmp.Or(a.server.Compare(b.server), cmp.Compare(a.side, b.side))
	})
	if f.side == capture.Client {
		return "the client of " + s.peers.of(f.server), times
	}
	return s.peers.of(f.server), times
}

// finding is one with all but words.
func (s *stalls) finding(id string, scene Scene) Finding {
	f := Finding{ID: id, Severity: s.charge.severity(scene), Cost: s.charge.cost(scene), Evidence: s.evidence.sorted()}
	// A captured server has sent its answer when bytes of it are lost: its client waits.
	if f.Severity == Low {
		f.Severity = Medium
	}
	return f
}

package trap

import (
	"net/netip"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

// dialling is requests that each open a connection for a call and close it, and others
// that use one that stays.
func dialling(s *story, fresh, kept int) {
	keep := s.conn(pod, search)
	for i := range fresh + kept {
		now := float64(i * 1000)
		c := keep
		if i < fresh {
			c = s.dial(pod, search, now+1, now+3)
		}
		s.request(now, 40, s.http(c, now+5, 10, "GET", "/index"))
		if i < fresh {
			s.close(c, now+30, capture.Client)
		}
	}
	s.end(keep)
}

// sealing is connections of TLS, each with a handshake of 30 ms and some turns.
func sealing(s *story, conns, turns int, open bool) {
	for i := range conns {
		now := float64(i * 1000)
		c := s.dial(pod, "10.0.3.7:443", now)
		hello := s.protocol(capture.TLS, c, now+1, 30, "handshake", "")
		data := []*capture.Exchange{hello}
		for j := range turns {
			data = append(data, s.protocol(capture.TLS, c, now+32+float64(j), 1, "data", ""))
		}
		s.request(now, 100, data...)
		if open {
			s.end(c)
		} else {
			s.close(c, now+200, capture.Client)
		}
	}
}

// stalled is requests whose call's connection stalls from 10 ms on.
func stalled(s *story, n int, kind capture.StallKind, took float64, change ...func(*capture.Stall)) {
	c := s.conn(pod, search)
	for i := range n {
		now := float64(i * 10_000)
		s.stall(c, kind, capture.Client, now+10, now+10+took, change...)
		s.request(now, took+40, s.http(c, now+5, took+20, "POST", "/index"))
	}
}

func idle(d time.Duration) func(*capture.Stall) {
	return func(s *capture.Stall) { s.Idle = d }
}

var connectionPairs = map[string]pair{
	"connection-per-request": {
		has:   func(s *story) { dialling(s, 6, 4) },
		title: "The service opened 6 connections for 10 requests to 10.0.3.7:9200 and closed them; a request waited 1.8 ms for it on average.",
		cost:  1800 * time.Microsecond, severity: Medium,
		near: map[string]func(*story){
			"half of the requests": func(s *story) { dialling(s, 5, 5) },
			"four":                 func(s *story) { dialling(s, 4, 0) },
			"a pool that fills and stays": func(s *story) {
				for i := range 10 {
					c := s.dial(pod, search, float64(i))
					s.http(c, float64(i)+2, 10, "GET", "/index")
					s.end(c)
				}
			},
			"probes of the kubelet": func(s *story) {
				for i := range 10 {
					c := s.dial(gateway, pod+":8080", float64(i*1000))
					x := s.exchange(c, float64(i*1000)+1, 1, "GET", "/healthz")
					x.HTTP.UserAgent = "kube-probe/1.31"
					s.now(x)
					s.close(c, float64(i*1000)+3, capture.Client)
				}
			},
			"calls to the metadata service": func(s *story) {
				for i := range 10 {
					c := s.dial(pod, imds, float64(i*1000))
					s.metadata(c, float64(i*1000)+1, 2, capture.MetadataRole, 0)
					s.close(c, float64(i*1000)+9, capture.Client)
				}
			},
			"probes that only connect": func(s *story) {
				for i := range 10 {
					s.close(s.dial(gateway, pod+":8080", float64(i*1000)), float64(i*1000)+2, capture.Client)
				}
			},
		},
	},
	"tls-per-request": {
		has:   func(s *story) { sealing(s, 6, 1, false) },
		title: "6 TLS handshakes for 6 requests to 10.0.3.7:443, of which 0 resumed a session; a request waited 30 ms for it on average.",
		cost:  30 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"two requests each":     func(s *story) { sealing(s, 6, 2, false) },
			"four":                  func(s *story) { sealing(s, 4, 1, false) },
			"a pool that is filled": func(s *story) { sealing(s, 10, 1, true) },
		},
	},
	"nagle-delayed-ack": {
		has:   func(s *story) { stalled(s, 3, capture.StallDelayedACK, 40) },
		title: "3 small segments waited 40 ms on average for a delayed acknowledgement (3 of them sent by the client of 10.0.3.7:9200); each request cost 40 ms.",
		cost:  40 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"twice":                func(s *story) { stalled(s, 2, capture.StallDelayedACK, 40) },
			"sooner":               func(s *story) { stalled(s, 5, capture.StallDelayedACK, 34) },
			"bytes that were lost": func(s *story) { stalled(s, 5, capture.StallFast, 40) },
		},
	},
	"retransmit-timeout": {
		has:   func(s *story) { stalled(s, 3, capture.StallTimeout, 200) },
		title: "TCP sent again by timer 3 times on 1 connection, after 200 ms on average and 200 ms at most (3 times by the client of 10.0.3.7:9200); each request cost 200 ms.",
		cost:  200 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"twice": func(s *story) { stalled(s, 2, capture.StallTimeout, 400) },
			"three in 400,000 packets": func(s *story) {
				stalled(s, 3, capture.StallTimeout, 300)
				s.packet += 400_000
			},
			"before 200 ms":     func(s *story) { stalled(s, 5, capture.StallTimeout, 199) },
			"found out at once": func(s *story) { stalled(s, 5, capture.StallFast, 250) },
			"a tail loss probe": func(s *story) { stalled(s, 5, capture.StallTail, 250) },
		},
	},
	"zero-window": {
		has:   func(s *story) { stalled(s, 3, capture.StallZeroWindow, 11) },
		title: "A reader had no room 3 times, for 11 ms on average and 11 ms at most (3 times 10.0.3.7:9200); each request cost 11 ms.",
		cost:  11 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"10 ms": func(s *story) { stalled(s, 5, capture.StallZeroWindow, 10) },
			"twice": func(s *story) { stalled(s, 2, capture.StallZeroWindow, 900) },
		},
	},
	"slow-start-after-idle": {
		has:   func(s *story) { stalled(s, 3, capture.StallSlowStart, 8, idle(10*time.Second)) },
		title: "Connections that had been idle began slowly again 3 times, losing 8.0 ms on average (3 times by the client of 10.0.3.7:9200); each request cost 8.0 ms.",
		cost:  8 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"hardly idle": func(s *story) { stalled(s, 5, capture.StallSlowStart, 8, idle(200*time.Millisecond)) },
			"twice":       func(s *story) { stalled(s, 2, capture.StallSlowStart, 80, idle(10*time.Second)) },
		},
	},
}

// TestInboundConnections sees clients that do not keep connections to the service.
func TestInboundConnections(t *testing.T) {
	t.Parallel()
	for _, blind := range []bool{false, true} {
		s := story{blind: blind}
		for i := range 6 {
			now := float64(i * 1000)
			c := s.dial(gateway, pod+":8080", now)
			s.requestOn(c, now+1, 20)
			s.close(c, now+30, capture.Server)
		}
		found := s.play(newConnectionPerRequest())
		const want = "Clients opened 6 connections for 6 requests to the service (10.0.0.5:8080) and closed them; a request waited 1.0 ms for it on average."
		if len(found) != 1 || found[0].Title != want || found[0].Cost != time.Millisecond {
			t.Errorf("without directions: %v: %+v; want %q", blind, found, want)
		}
	}
}

// TestBlind sees that captures that do not tell directions show the same traps.
func TestBlind(t *testing.T) {
	t.Parallel()
	for _, group := range pairs {
		for id, p := range group {
			s := story{blind: true}
			p.has(&s)
			found := s.play(ruleOf(t, id))
			if len(found) != 1 || found[0].Title != p.title || found[0].Confirmed == "" && p.confirmed != "" {
				t.Errorf("%s: %+v; want\n%s", id, found, p.title)
			}
		}
	}
}

// TestWaits sees that each moment is charged once, and only inside of the request.
func TestWaits(t *testing.T) {
	t.Parallel()
	var s story
	a, b := s.conn(pod, search), s.conn(pod, "10.0.3.8:9200")
	r := s.request(100, 100, s.http(a, 110, 50, "GET", "/"), s.http(b, 120, 50, "GET", "/"))
	w := newWaits()
	w.add(a.ID, at(90), at(130))  // from the call's begin: 110 to 130
	w.add(b.ID, at(125), at(150)) // 20 more
	w.add(b.ID, at(165), at(400)) // to the call's end: 165 to 170
	w.add(999, at(0), at(1000))   // somebody else's
	if lost, calls := w.of(r); lost != 45*time.Millisecond || calls != 2 {
		t.Errorf("%v in %d calls, want 45 ms in 2", lost, calls)
	}
	for i := range 3 * waitingConns {
		w.add(uint64(1000+i), at(0), at(1))
	}
	if len(w.conns) > waitingConns {
		t.Errorf("%d connections kept, want at most %d", len(w.conns), waitingConns)
	}
	if lost, _ := w.of(r); lost != 0 {
		t.Errorf("%v of connections that are forgotten", lost)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"1.1.1.1": true, "2001:4860::1": true, "10.0.0.1": false, "192.168.1.1": false, "100.64.0.9": false,
		"169.254.169.254": false, "127.0.0.1": false, "fd00::1": false, "::1": false, "100.128.0.1": true,
	} {
		if got := isOutside(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s outside: %v, want %v", text, got, want)
		}
	}
}

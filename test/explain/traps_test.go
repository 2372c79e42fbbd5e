package explain

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
	diagnosis "taper.dev/taper/internal/explain"
)

const ms = time.Millisecond

// story is a capture of a service that gets requests, a second apart, and does with each
// what a test says.
type story struct {
	*synth.Script
	ports uint16
}

// writeStory writes a story of so many requests. Each is given its time and says how long it
// took.
func writeStory(requests int, do func(s *story, i int, at time.Duration) time.Duration) *synth.Capture {
	s := &story{Script: synth.NewScript()}
	client := s.Dial(0, ms, netip.MustParseAddrPort("10.9.0.7:40000"), synth.ServiceAddr)
	at := 100 * ms
	for i := range requests {
		client.Send(at, capture.Client, synth.Get("GET", "/v1/items", "shop.example", "curl/8", nil))
		took := do(s, i, at)
		client.Send(at+took, capture.Server, synth.Answer(200, []byte("{}")))
		client.Acknowledge(at+took+ms, capture.Client)
		at += took + time.Second
	}
	return s.Capture()
}

// own is an address of the service with a port that was not used yet.
func (s *story) own() netip.AddrPort {
	s.ports++
	return netip.AddrPortFrom(synth.ServiceAddr.Addr(), 42000+s.ports)
}

func (s *story) dial(at time.Duration, to netip.AddrPort) *synth.Talk {
	return s.Dial(at, ms, s.own(), to)
}

// call asks on a connection, and has the answer after a time.
func call(t *synth.Talk, at, took time.Duration) {
	t.Send(at, capture.Client, synth.Get("GET", "/search", "backend", "client/1", nil))
	t.Send(at+took, capture.Server, synth.Answer(200, bytes.Repeat([]byte("x"), 200)))
	t.Acknowledge(at+took+ms/2, capture.Client)
}

var (
	backend  = netip.MustParseAddrPort("10.1.0.1:9200")
	outside  = netip.MustParseAddrPort("93.184.216.34:80")
	metadata = netip.MustParseAddrPort("169.254.169.254:80")
	found    = backend.Addr()
)

// pair is a trap as packets have it, and packets that nearly have it.
type pair struct{ has, nearly *synth.Capture }

// variants writes both captures of a pair: do is told whether the trap is wanted.
func variants(requests int, do func(s *story, i int, at time.Duration, trapped bool) time.Duration) pair {
	write := func(trapped bool) *synth.Capture {
		return writeStory(requests, func(s *story, i int, at time.Duration) time.Duration { return do(s, i, at, trapped) })
	}
	return pair{write(true), write(false)}
}

func choose[T any](trapped bool, yes, no T) T {
	if trapped {
		return yes
	}
	return no
}

var pairs = map[string]func(t *testing.T) pair{
	"credential-refresh": func(t *testing.T) pair {
		return pair{generate(t, synth.Article(15*time.Minute, 40)), generate(t, synth.Article(time.Hour, 40))}
	},
	"metadata-slow": func(*testing.T) pair {
		return variants(4, func(s *story, _ int, at time.Duration, trapped bool) time.Duration {
			took := choose(trapped, 1200*ms, 700*ms)
			c := s.dial(at+ms, metadata)
			c.Send(at+3*ms, capture.Client, synth.Get("GET", "/latest/meta-data/placement/region", "169.254.169.254", "client/1", nil))
			c.Send(at+3*ms+took, capture.Server, synth.Answer(200, []byte("eu-west-1")))
			return took + 10*ms
		})
	},
	"imdsv2-hop-limit": func(*testing.T) pair {
		return variants(3, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			c := s.dial(at+ms, metadata)
			c.Send(at+3*ms, capture.Client, synth.Get("PUT", "/latest/api/token", "169.254.169.254", "client/1", nil))
			wait := 1000 * ms
			if !trapped {
				c.Send(at+4*ms, capture.Server, synth.Answer(200, []byte("token")))
			}
			c.Finish(at+wait, capture.Client)
			second := s.dial(at+wait+ms, metadata)
			second.Send(at+wait+3*ms, capture.Client, synth.Get("GET", "/latest/meta-data/placement/region", "169.254.169.254", "client/1", nil))
			second.Send(at+wait+4*ms, capture.Server, synth.Answer(200, []byte("eu-west-1")))
			return wait + 10*ms
		})
	},
	"dns-search-amplification": func(*testing.T) pair {
		return variants(6, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			from := s.own()
			if trapped {
				s.Ask(at+ms, 2*ms, from, uint16(2*i), "backend.example.shop.svc.cluster.local", false, netip.Addr{})
			}
			s.Ask(at+4*ms, 2*ms, from, uint16(2*i+1), "backend.example", false, found)
			call(s.dial(at+7*ms, backend), at+9*ms, 5*ms)
			return 20 * ms
		})
	},
	"dns-uncached": func(*testing.T) pair {
		return variants(12, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			if trapped || i == 0 {
				s.Ask(at+ms, 2*ms, s.own(), uint16(i), "backend.example", false, found)
			}
			call(s.dial(at+7*ms, backend), at+9*ms, 5*ms)
			return 20 * ms
		})
	},
	"dns-slow": func(*testing.T) pair {
		return variants(6, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			took := choose(trapped, 150*ms, 60*ms)
			s.Ask(at+ms, took, s.own(), uint16(i), "backend.example", false, found)
			return took + 5*ms
		})
	},
	"dns-conntrack-race": func(*testing.T) pair {
		return variants(3, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			again := choose(trapped, 5000*ms, 3000*ms)
			from := s.own()
			s.Ask(at+ms, 2*ms, from, uint16(2*i), "backend.example", false, found)
			s.Ask(at+ms, -1, from, uint16(2*i+1), "backend.example", true, found)
			s.Ask(at+ms+again, 2*ms, from, uint16(2*i), "backend.example", false, found)
			s.Ask(at+ms+again+ms/10, 2*ms, from, uint16(2*i+1), "backend.example", true, found)
			return again + 20*ms
		})
	},
	"connection-per-request": func(*testing.T) pair {
		var kept *synth.Talk
		return variants(12, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			if trapped || i == 0 {
				kept = s.dial(at+ms, backend)
			}
			call(kept, at+3*ms, 5*ms)
			if trapped {
				kept.Finish(at+9*ms, capture.Client)
				kept.Finish(at+10*ms, capture.Server)
			}
			return 12 * ms
		})
	},
	"nagle-delayed-ack": func(*testing.T) pair {
		var kept *synth.Talk
		return variants(6, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			if i == 0 {
				kept = s.dial(at-50*ms, backend)
			}
			question := synth.Get("POST", "/search", "backend", "client/1", bytes.Repeat([]byte("q"), 80))
			head, body := question[:len(question)-80], question[len(question)-80:]
			kept.Send(at+ms, capture.Client, head)
			wait := ms / 10
			if trapped {
				wait = 40 * ms
				kept.Acknowledge(at+ms+wait-ms/20, capture.Server)
			}
			kept.Send(at+ms+wait, capture.Client, body)
			kept.Send(at+ms+wait+5*ms, capture.Server, synth.Answer(200, []byte("{}")))
			kept.Acknowledge(at+ms+wait+6*ms, capture.Client)
			return wait + 10*ms
		})
	},
	"retransmit-timeout": func(*testing.T) pair {
		var kept *synth.Talk
		return variants(5, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			if i == 0 {
				kept = s.dial(at-50*ms, backend)
			}
			question := synth.Get("GET", "/search", "backend", "client/1", nil)
			kept.Send(at+ms, capture.Client, question)
			wait := choose(trapped, 210*ms, 60*ms)
			kept.SendAgain(at+ms+wait, capture.Client, question)
			kept.Send(at+wait+5*ms, capture.Server, synth.Answer(200, []byte("{}")))
			kept.Acknowledge(at+wait+6*ms, capture.Client)
			return wait + 10*ms
		})
	},
	"syn-loss": func(*testing.T) pair {
		return variants(4, func(s *story, _ int, at time.Duration, trapped bool) time.Duration {
			wait := choose(trapped, 1000*ms, 300*ms)
			c := s.Knock(at+ms, s.own(), backend)
			c.Knock(at + ms + wait)
			c.Accept(at+ms+wait, ms)
			call(c, at+wait+5*ms, 5*ms)
			return wait + 20*ms
		})
	},
	"zero-window": func(*testing.T) pair {
		var kept *synth.Talk
		return variants(5, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			if i == 0 {
				kept = s.dial(at-50*ms, backend)
			}
			wait := choose(trapped, 30*ms, 5*ms)
			answer := synth.Answer(200, bytes.Repeat([]byte("x"), 6000))
			kept.Send(at+ms, capture.Client, synth.Get("GET", "/search", "backend", "client/1", nil))
			kept.Send(at+3*ms, capture.Server, answer[:3000])
			kept.Window(at+4*ms, capture.Client, 0)
			kept.Window(at+4*ms+wait, capture.Client, 500)
			kept.Send(at+5*ms+wait, capture.Server, answer[3000:])
			kept.Acknowledge(at+6*ms+wait, capture.Client)
			return wait + 10*ms
		})
	},
	"idle-drop": func(*testing.T) pair {
		var kept *synth.Talk
		return variants(2, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			if i == 0 {
				kept = s.dial(at+ms, backend)
				call(kept, at+3*ms, 5*ms)
				return choose(trapped, 360*time.Second, 120*time.Second)
			}
			kept.Send(at+ms, capture.Client, synth.Get("GET", "/search", "backend", "client/1", nil))
			kept.Reset(at+2*ms, capture.Server)
			return 10 * ms
		})
	},
	"keepalive-race": func(*testing.T) pair {
		return variants(3, func(s *story, _ int, at time.Duration, trapped bool) time.Duration {
			c := s.Dial(at+ms, 20*ms, s.own(), backend)
			call(c, at+25*ms, 30*ms)
			if trapped {
				c.Send(at+100*ms, capture.Client, synth.Get("GET", "/search", "backend", "client/1", nil))
			}
			c.Finish(at+105*ms, capture.Server)
			c.Reset(at+120*ms, capture.Server)
			return 130 * ms
		})
	},
	"stale-endpoint": func(*testing.T) pair {
		return variants(6, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			gone := netip.MustParseAddrPort("10.1.0.9:9200")
			if i < 3 {
				call(s.dial(at+ms, choose(trapped, gone, backend)), at+3*ms, 5*ms)
				return 20 * ms
			}
			c := s.Knock(at+ms, s.own(), gone)
			c.Reset(at+2*ms, capture.Server)
			return 20 * ms
		})
	},
	"snat-exhaustion": func(*testing.T) pair {
		return variants(8, func(s *story, i int, at time.Duration, trapped bool) time.Duration {
			if i%2 == 0 {
				call(s.dial(at+ms, outside), at+3*ms, 5*ms)
				return 20 * ms
			}
			c := s.Knock(at+ms, s.own(), choose(trapped, outside, netip.MustParseAddrPort("93.184.216.35:80")))
			c.Knock(at + 1001*ms)
			c.Knock(at + 3001*ms)
			return 5000 * ms
		})
	},
	"n-plus-one": func(t *testing.T) pair {
		loop := func(times int) *synth.Capture {
			p := synth.Chain(0.1, 40)
			p.Routes[0].Steps[1].Times = times
			return generate(t, p)
		}
		return pair{loop(9), loop(2)}
	},
}

// Each trap is found in packets that have it, and not in packets that nearly have it.
func TestTraps(t *testing.T) {
	t.Parallel()
	for id, write := range pairs {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			p := write(t)
			if got := findings(t, p.has); !slices.Contains(got, id) {
				t.Errorf("found %q in packets that have it", got)
			}
			if got := findings(t, p.nearly); slices.Contains(got, id) {
				t.Errorf("found %q in packets that nearly have it", got)
			}
		})
	}
}

// A connection that was opened shortly before a request came carries its call all the
// same.
func TestConnectionOpenedAhead(t *testing.T) {
	t.Parallel()
	all := explain(t, writeStory(3, func(s *story, _ int, at time.Duration) time.Duration {
		call(s.dial(at-10*ms, backend), at+2*ms, 5*ms)
		return 10 * ms
	}))
	for _, r := range all.requests {
		if len(r.Links) != 1 {
			t.Errorf("request %d has %d links, want one", r.ID, len(r.Links))
		}
	}
	if len(all.requests) != 3 || len(all.orphans) > 0 {
		t.Errorf("%d requests and %d orphans, want 3 and none", len(all.requests), len(all.orphans))
	}
}

func findings(t *testing.T, c *synth.Capture) (ids []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "capture.pcap")
	var b bytes.Buffer
	c.Rewind()
	if _, err := c.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := diagnosis.Run(t.Context(), diagnosis.Options{Paths: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range e.Findings {
		ids = append(ids, f.ID)
	}
	return ids
}

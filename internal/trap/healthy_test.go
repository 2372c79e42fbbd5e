package trap

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

// healthy is an hour of a service as it should be: kept connections, cached names and
// credentials, a deployment of what it calls, a lost packet now and then, probes.
func healthy(s *story) {
	random := rand.New(rand.NewPCG(7, 8))
	resolver, issuer := s.conn(pod, coredns), s.conn(pod, imds)
	var pool, clients []*capture.Conn
	for i := range 8 {
		c := s.dial(pod, search, float64(i))
		s.protocol(capture.TLS, c, float64(i)+2, 20, "handshake", "").Authority = "es.example.com"
		pool = append(pool, c)
		clients = append(clients, s.conn(gateway, pod+":8080"))
	}
	database := s.conn(pod, "10.0.3.9:5432")
	grpc := []*capture.Conn{s.conn(pod, "10.0.4.1:50051"), s.conn(pod, "10.0.4.2:50051")}
	now := 100.0
	for i := range 6000 {
		now += 100 + random.Float64()*1000
		var calls []*capture.Exchange
		if i%60 == 0 { // names live 30 s, a request comes each 0.6 s
			calls = append(calls, s.dns(resolver, now+1, 1, "A", "es.example.com", 0), s.dns(resolver, now+1, 1, "AAAA", "es.example.com", 0))
		}
		if i%1500 == 0 { // every quarter of an hour; the life left is an hour
			calls = append(calls, s.metadata(issuer, now+3, 4, capture.MetadataSession, 0))
			get := s.metadata(issuer, now+8, 5, capture.MetadataCredentials, time.Hour)
			get.HTTP.Metadata.Token = true
			calls = append(calls, get)
		}
		calls = append(calls, s.protocol(capture.TLS, pool[i%8], now+20, 5+10*random.Float64(), "data", ""))
		calls = append(calls, s.protocol(capture.PostgreSQL, database, now+40, 2, "SELECT", "SELECT a FROM b WHERE c = ?"))
		x := s.exchange(grpc[i%2], now+44, 3, "", "/shop.Cart/Get")
		x.Protocol, x.Authority = capture.GRPC, "cart.shop.svc.cluster.local:50051"
		calls = append(calls, s.now(x))
		if i%10 == 0 { // one of the pods answers after some work
			s.stall(pool[i%8], capture.StallFast, capture.Client, now+21, now+24)
		}
		s.requestOn(clients[i%8], now, 55+40*random.Float64(), calls...)
		if i%16 == 0 {
			c := s.dial(gateway, pod+":8080", now+60)
			probe := s.exchange(c, now+61, 1, "GET", "/healthz")
			probe.HTTP.UserAgent = "kube-probe/1.31"
			s.now(probe)
			s.close(c, now+63, capture.Client)
		}
	}
	s.stall(pool[0], capture.StallTimeout, capture.Client, 5000, 5210)
	s.stall(database, capture.StallZeroWindow, capture.Server, 6000, 6020)
	s.end(s.silent(pod, "10.0.3.99:9200", now+5, now+1005)) // one that a deployment took away
	for _, c := range append(pool, clients...) {
		s.close(c, now+60_000, capture.Client)
	}
}

// TestHealthy sees that no rule finds anything in a service as it should be.
func TestHealthy(t *testing.T) {
	t.Parallel()
	var s story
	healthy(&s)
	for _, r := range All() {
		if found := s.play(r); len(found) > 0 {
			t.Errorf("%s: %+v", r.ID(), found)
		}
	}
}

// TestNothing sees that no rule needs anything to be there.
func TestNothing(t *testing.T) {
	t.Parallel()
	for _, r := range All() {
		if found := r.Findings(Scene{}); len(found) > 0 {
			t.Errorf("%s: %+v", r.ID(), found)
		}
	}
}

// TestSameAnswer sees that a capture has one answer, though rules keep maps.
func TestSameAnswer(t *testing.T) {
	t.Parallel()
	for _, group := range pairs {
		for id, p := range group {
			var s story
			p.has(&s)
			p.has(&s)
			want := fmt.Sprint(s.play(ruleOf(t, id)))
			for range 5 {
				if got := fmt.Sprint(s.play(ruleOf(t, id))); got != want {
					t.Errorf("%s\n%s\nthen\n%s", id, want, got)
				}
			}
		}
	}
}

// BenchmarkRules tells all rules the facts of a healthy hour; it says the time for a fact.
func BenchmarkRules(b *testing.B) {
	var s story
	healthy(&s)
	b.ReportAllocs()
	for b.Loop() {
		rules := NewRules(All())
		for _, fact := range s.facts {
			fact(rules)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.facts)), "ns/fact")
	b.ReportMetric(float64(s.packet), "packets")
}

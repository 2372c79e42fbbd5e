package explain

import (
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/trap"
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	alone := func(steps ...step) *Explanation {
		s := newStory(10, 0)
		for range 4 {
			s.request("/x", "/x", steps...)
		}
		return s.explanation()
	}
	found := func(e *Explanation, findings ...Finding) *Explanation {
		e.Findings = append(e.Findings, findings...)
		return e
	}
	es := call("es:9200", "/_search", 18*time.Millisecond)
	dns := step{attribution.DNS, "10.0.0.10", 20 * time.Millisecond, "A", "es", 1, 0, false, nil}
	connect := step{attribution.Connect, "es:9200", 9 * time.Millisecond, "", "", 0, 0, false, nil}
	tests := map[string]struct {
		e    *Explanation
		want string
	}{
		"the story": {article(false), "86 of 106 ms of each GET /v1/{id} went to 2 calls to the AWS instance metadata service (/latest/meta-data/iam/security-credentials/…). " +
			"The credentials live 15 minutes and this SDK (aws-sdk-java/1.11) refreshes below 15, so every request refreshes. " +
			"Let the issuer give longer sessions (KIAM --session-duration, ≥ 30 min) or update the SDK. " +
			"40 requests of GET /v1/{id}: p50 106 ms, slowest 108 ms."},
		"nothing wrong": {alone(es, step{took: 2 * time.Millisecond}),
			"18.0 of 20.0 ms of each request went to 1 call to es:9200 (/_search). 4 requests: p50 20.0 ms, slowest 20.0 ms. No known trap shows in the capture."},
		"own time": {alone(es, step{took: 82 * time.Millisecond}),
			"82 of 100 ms of each request went to the service itself, without any network activity. " + ownTime + " 4 requests: p50 100 ms, slowest 100 ms. No known trap shows in the capture."},
		"no time at all": {alone(), "No request took longer than the capture's clock can tell. 4 requests: p50 0.00 ms, slowest 0.00 ms. No known trap shows in the capture."},
		"very short": {alone(call("es:9200", "/", 20*time.Microsecond), step{took: 21 * time.Microsecond}),
			"0.0210 of 0.0410 ms of each request went to the service itself, without any network activity. " + ownTime + " 4 requests: p50 0.04 ms, slowest 0.04 ms. No known trap shows in the capture."},
		"many parts": {alone(es, dns, connect, step{took: time.Millisecond}),
			"Each request took 48.0 ms: 20.0 ms in 1 DNS query (es), 18.0 ms in 1 call to es:9200 (/_search) and 9.0 ms in 1 TCP handshake with es:9200. 4 requests: p50 48.0 ms, slowest 48.0 ms. No known trap shows in the capture."},
		"the headline is not repeated": {
			found(alone(dns, dns), Finding{ID: "dns-uncached", Severity: trap.Medium, Title: "2 DNS queries (es) in each request cost 40 ms. Nothing caches them", Fix: "Cache"}),
			"40.0 of 40.0 ms of each request went to 2 DNS queries (es). Nothing caches them. Cache. 4 requests: p50 40.0 ms, slowest 40.0 ms."},
		"what the headline has not said stays": {
			found(alone(dns, es), Finding{ID: "dns-uncached", Severity: trap.Medium, Title: "1 DNS query in each request is for es. Nothing caches it", Fix: "Cache"}),
			"20.0 of 38.0 ms of each request went to 1 DNS query (es). 1 DNS query in each request is for es. Nothing caches it. Cache. 4 requests: p50 38.0 ms, slowest 38.0 ms."},
		"another finding, if grave": {
			found(alone(es), Finding{ID: "keepalive-race", Severity: trap.Medium, Title: "Odd", Fix: "Do"}, Finding{ID: "hairpin", Severity: trap.High, Title: "Grave", Fix: "Do so"}),
			"18.0 of 18.0 ms of each request went to 1 call to es:9200 (/_search). Odd. Do. 4 requests: p50 18.0 ms, slowest 18.0 ms."},
		"low ones are not in the answer": {
			found(alone(es), Finding{ID: "n-plus-one", Severity: trap.Low, Title: "Low", Fix: "Do"}),
			"18.0 of 18.0 ms of each request went to 1 call to es:9200 (/_search). 4 requests: p50 18.0 ms, slowest 18.0 ms."},
	}
	for name, test := range tests {
		a := test.e.Answer()
		if got := a.Headline + " " + strings.Join(a.Rest, " "); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, test.want)
		}
	}
}

func TestAnswerWithoutRequests(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		e    Explanation
		want []string
	}{
		"empty": {Explanation{}, []string{"no packets", "tcpdump -leni any -w capture.pcap"}},
		"which machine": {
			Explanation{Capture: Capture{Packets: 9}, Servers: []Server{{"10.0.0.7:8080", capture.HTTP, 1200}, {"10.0.0.9:9200", capture.HTTP2, 3}}},
			[]string{"does not tell which", "10.0.0.7:8080 (1,200 http) and 10.0.0.9:9200 (3 http2)", "--service 10.0.0.7:8080"},
		},
		"encrypted": {
			Explanation{Capture: Capture{Packets: 1234, Connections: 5, Exchanges: map[string]uint64{capture.TLS: 7, capture.DNS: 9}}},
			[]string{"encrypted", "It has 1,234 packets, 5 connections, 9 dns, 7 tls.", "behind what ends TLS"},
		},
		"something else": {
			Explanation{Capture: Capture{Packets: 5, Exchanges: map[string]uint64{capture.Redis: 2}}},
			[]string{"in a protocol that taper reads", "2 redis", "tcpdump"},
		},
	}
	for name, test := range tests {
		a := test.e.Answer()
		got := a.Headline + " " + strings.Join(a.Rest, " ")
		if !strings.HasPrefix(got, "No requests: ") {
			t.Errorf("%s: %s", name, got)
		}
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", name, got, want)
			}
		}
	}
}

// A rule without symptoms would never explain anything.
func TestAllRulesHaveSymptoms(t *testing.T) {
	t.Parallel()
	for _, rule := range trap.All() {
		if len(symptoms[rule.ID()]) == 0 {
			t.Errorf("nothing says on which causes %s lets time be spent", rule.ID())
		}
	}
}

func TestFailuresAreSaid(t *testing.T) {
	t.Parallel()
	e := article(false)
	e.Routes[0].Failed = 2
	if a := strings.Join(e.Answer().Rest, " "); !strings.Contains(a, "2 of 44 requests failed.") {
		t.Errorf("the answer does not say what failed: %s", a)
	}
}

func TestSeveral(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{1: "1 query", 2: "2 queries", 1.98: "2 queries", 2.4: "2.4 queries", .2: "0.2 queries", .01: "a rare query"} {
		if got := several(n, "query"); got != want {
			t.Errorf("several(%g) = %q, want %q", n, got, want)
		}
	}
}

func TestLacks(t *testing.T) {
	t.Parallel()
	if got := (&Capture{Packets: 9, Connections: 3, Retransmitted: 2, DuplicatePackets: 4}).Lacks(); got != "" {
		t.Errorf("a whole capture lacks %q", got)
	}
	c := Capture{TruncatedPackets: 1, MissingBytes: 12_345, Damage: []string{"a.pcap: ends in the middle"}}
	if got, want := c.Lacks(), "a.pcap: ends in the middle, 1 packet was cut short (tcpdump -s 0 keeps all), 12,345 bytes of the streams are missing"; got != want {
		t.Errorf("lacks %q, want %q", got, want)
	}
}

package trap_test

import (
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/dissect"
	"taper.dev/taper/internal/capture/pcapfile"
	"taper.dev/taper/internal/capture/synth"
	"taper.dev/taper/internal/trap"
)

// ear tells rules what is said of a capture, as package explain does.
type ear struct {
	linker   *attribution.Linker
	rules    *trap.Rules
	requests uint64
	time     time.Duration
}

func (e *ear) Exchange(x *capture.Exchange) {
	e.rules.Exchange(x)
	e.linker.Exchange(x)
}

func (e *ear) Stall(s *capture.Stall) {
	e.rules.Stall(s)
	e.linker.Stall(s)
}

func (e *ear) Conn(c *capture.Conn) {
	e.rules.Conn(c)
	e.linker.Conn(c)
}

func (e *ear) Advance(t capture.Time) { e.linker.Advance(t) }

func (e *ear) Request(r *attribution.Request) {
	e.requests++
	e.time += r.Duration()
	e.rules.Request(r)
}

func (e *ear) Orphan(o *attribution.Orphan) {
	e.rules.Orphan(o)
}

// hear is all findings in packets, and how many requests they held.
func hear(t *testing.T, packets dissect.Source) ([]trap.Finding, uint64) {
	t.Helper()
	e := &ear{rules: trap.NewRules(trap.All())}
	e.linker = attribution.New(attribution.Options{}, e)
	stats, err := dissect.Run(t.Context(), packets, e)
	if err != nil {
		t.Fatal(err)
	}
	e.linker.Finish()
	return e.rules.Findings(trap.Scene{Stats: stats, Requests: e.requests, Time: e.time}), e.requests
}

// generated is all findings in the packets of a plan.
func generated(t *testing.T, p synth.Plan) []trap.Finding {
	t.Helper()
	packets, err := synth.New(p)
	if err != nil {
		t.Fatal(err)
	}
	found, requests := hear(t, packets)
	if requests < uint64(p.Requests)*9/10 {
		t.Fatalf("%d of %d requests found", requests, p.Requests)
	}
	return found
}

// TestRecordings sees traps in what real programs sent, and none where there are none.
func TestRecordings(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"flow/testdata/nagle-client.pcap": "nagle-delayed-ack",
		"flow/testdata/idle-client.pcap":  "slow-start-after-idle",
		"flow/testdata/lossy-client.pcap": "retransmit-timeout",
		"http1/testdata/curl.pcap":        "connection-per-request",
		"http1/testdata/nethttp.pcap":     "",
		"http2/testdata/go.pcap":          "",
		"postgresql/testdata/psql.pcap":   "",
		"mysql/testdata/mariadb.pcap":     "",
		"redis/testdata/redis-cli.pcap":   "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := pcapfile.Open([]string{"../capture/" + name}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			found, requests := hear(t, file)
			if requests == 0 {
				t.Error("no requests")
			}
			var ids []string
			for _, f := range found {
				ids = append(ids, f.ID)
			}
			if got := strings.Join(ids, " "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestArticle sees the published story found in its packets, its cure, and services that
// have no trap.
func TestArticle(t *testing.T) {
	t.Parallel()
	found := generated(t, synth.Article(15*time.Minute, 200))
	if len(found) != 1 || found[0].ID != "credential-refresh" || found[0].Severity != trap.High {
		t.Fatalf("%+v; want credential-refresh alone", found)
	}
	for _, part := range []string{
		"2 calls to the AWS instance metadata service (/latest/meta-data/iam/security-credentials/…) in each request cost 8",
		" ms. The credentials live 15 minutes and this SDK (aws-sdk-java/1.11) refreshes below 15, so every request refreshes.",
	} {
		if !strings.Contains(found[0].Title, part) {
			t.Errorf("%s\nlacks\n%s", found[0].Title, part)
		}
	}
	for name, plan := range map[string]synth.Plan{
		"sessions of an hour": synth.Article(time.Hour, 200),
		"one request at once": synth.Chain(1, 300),
		"five at once":        synth.Chain(5, 300),
	} {
		if found := generated(t, plan); len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

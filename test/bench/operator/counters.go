package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"
)

// written are the resources that the operator's role lets it write, leases aside.
var written = []string{"serviceentries", "balancepolicies", "events"}

// counters are what the servers have counted until now.
type counters struct {
	writes  writes
	queries float64   // that the store has answered
	latency histogram // the operator's own, from event to write
}

// writes are requests to the API server that write, by resource.
type writes map[string]float64

func (w writes) since(before writes) writes {
	out := writes{}
	for resource, n := range w {
		out[resource] = n - before[resource]
	}
	return out
}

func (w writes) total() float64 {
	var n float64
	for _, of := range w {
		n += of
	}
	return n
}

// histogram has cumulative counts by upper bound in seconds, lowest first.
type histogram []bucket

type bucket struct{ bound, count float64 }

// since is what was counted after before.
func (h histogram) since(before histogram) histogram {
	out := make(histogram, len(h))
	copy(out, h)
	for i := range out {
		if i < len(before) {
			out[i].count -= before[i].count
		}
	}
	return out
}

// quantile is the bound of the bucket that holds it: the true one is not higher. It
// is NaN when nothing was counted.
func (h histogram) quantile(q float64) float64 {
	if len(h) == 0 || h[len(h)-1].count == 0 {
		return math.NaN()
	}
	for _, b := range h {
		if b.count >= q*h[len(h)-1].count {
			return b.bound
		}
	}
	return math.Inf(1)
}

// count reads the counters of API server, store and operator.
func (b *bench) count(ctx context.Context) (c counters, err error) {
	c.writes = writes{}
	err = scrape(ctx, b.transport, b.cluster.REST().Host+"/metrics", func(name string, labels map[string]string, m metric) {
		if name != "apiserver_request_total" || !slices.Contains(written, labels["resource"]) {
			return
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
			c.writes[labels["resource"]] += m.value
		}
	})
	if err != nil {
		return c, err
	}
	if c.queries, err = b.queries(ctx); err != nil {
		return c, err
	}
	return c, scrape(ctx, http.DefaultClient, b.subject.url+"/metrics", func(name string, _ map[string]string, m metric) {
		if name == "taper_membership_write_latency_seconds" {
			c.latency = m.histogram
		}
	})
}

// queries is how many queries the store was asked since it started.
func (b *bench) queries(ctx context.Context) (n float64, err error) {
	return n, scrape(ctx, http.DefaultClient, b.store.url+"/metrics", func(name string, labels map[string]string, m metric) {
		if name == "vm_http_requests_total" && labels["path"] == "/api/v1/query" {
			n += m.value
		}
	})
}

// metric is a counter or a gauge, or a histogram.
type metric struct {
	value     float64
	histogram histogram
}

// scrape reads a page of metrics.
func scrape(ctx context.Context, client *http.Client, url string, see func(name string, labels map[string]string, m metric)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := do(client, req, &page); err != nil {
		return fmt.Errorf("reading metrics: %w", err)
	}
	parser := expfmt.NewTextParser(prommodel.LegacyValidation)
	families, err := parser.TextToMetricFamilies(&page)
	if err != nil {
		return fmt.Errorf("reading the metrics of %s: %w", url, err)
	}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			labels := make(map[string]string, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			out := metric{value: m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()}
			for _, b := range m.GetHistogram().GetBucket() {
				out.histogram = append(out.histogram, bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
			}
			see(name, labels, out)
		}
	}
	return nil
}

// Who uses the machine's CPUs.
const (
	operator  = "operator"
	apiserver = "API server"
	etcd      = "etcd"
	storage   = "store"
	itself    = "bench"
	elsewhere = "others"
)

var users = []string{operator, apiserver, etcd, storage, itself, elsewhere}

// usage is CPU time by user.
type usage map[string]time.Duration

func (u usage) since(before usage) usage {
	out := usage{}
	for who, t := range u {
		out[who] = t - before[who]
	}
	return out
}

// used reads what everybody has used until now.
func (b *bench) used() (usage, error) {
	u := usage{}
	for who, read := range map[string]func() (time.Duration, error){
		operator: b.subject.CPUTime, apiserver: b.cluster.APIServer.CPUTime, etcd: b.cluster.Etcd.CPUTime,
		storage: b.store.CPUTime, itself: ownTime,
	} {
		var err error
		if u[who], err = read(); err != nil {
			return nil, err
		}
	}
	all, err := machineTime()
	for _, t := range u {
		all -= t
	}
	u[elsewhere] = max(0, all) // the machine's is in coarse steps
	return u, err
}

func ownTime() (time.Duration, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, fmt.Errorf("reading our own CPU time: %w", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), nil
}

// machineTime is how long the CPUs of the machine were busy, in all.
func machineTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("reading the machine's CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …
	if len(fields) < 9 {
		return 0, fmt.Errorf("reading the machine's CPU time: /proc/stat begins with %q", line)
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all that Go runs on
	var busy time.Duration
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the machine's CPU time: /proc/stat begins with %q", line)
		}
		busy += time.Duration(n) * tick
	}
	return busy, nil
}

// Package exporter shows what a fleet has used in the form in which a cluster
// shows it: CPU time as cAdvisor does, requests as Istio does. A query that
// works on the lab's metrics works on a cluster's.
//
// A [fleet.Fleet] goes in, an [http.Handler] to be scraped comes out. The
// counters are read anew for each scrape; a fleet that cannot be read is a
// failed scrape, never a zero. Start with [New].
package exporter

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/model"
)

const (
	// Namespace is the namespace in which the endpoints appear to be.
	Namespace = "lab"
	// Service is the service that they appear to be behind.
	Service = "fib"

	// maxRead ends a scrape of a fleet that hangs.
	maxRead = 5 * time.Second
)

// The labels are the ones that queries on clusters select and group by. The
// instance label is left to the store, which knows whom it has scraped.
var (
	cpuSeconds = prometheus.NewDesc(
		"container_cpu_usage_seconds_total",
		"Cumulative cpu time consumed in seconds.",
		[]string{"pod"},
		prometheus.Labels{"namespace": Namespace, "container": Service, "image": Service, "cpu": "total"},
	)
	requestsTotal = prometheus.NewDesc(
		"istio_requests_total",
		"Total number of requests handled by an endpoint.",
		[]string{"pod"},
		prometheus.Labels{
			"namespace":                      Namespace,
			"reporter":                       "destination",
			"destination_workload":           Service,
			"destination_workload_namespace": Namespace,
			"destination_service":            Service + "." + Namespace + ".svc.cluster.local",
			"destination_service_name":       Service,
			"destination_service_namespace":  Namespace,
			"request_protocol":               "http",
			"response_code":                  "200",
		},
	)
)

// New returns the handler that is scraped. An endpoint appears as the pod of its
// name, or of its address where it has no name.
func New(f fleet.Fleet) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), maxRead)
		defer cancel()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(collector{ctx, f})
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}

// collector reads the fleet for one scrape, hence the context in it.
type collector struct {
	ctx   context.Context
	fleet fleet.Fleet
}

func (c collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- cpuSeconds
	descs <- requestsTotal
}

func (c collector) Collect(metrics chan<- prometheus.Metric) {
	usages, err := c.fleet.Usage(c.ctx)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(cpuSeconds, err)
		return
	}
	pods := map[string]string{}
	for _, m := range c.fleet.Members() {
		pods[m.Address] = podOf(m.Endpoint)
	}
	for _, u := range usages {
		pod := pods[u.Address]
		metrics <- prometheus.MustNewConstMetric(cpuSeconds, prometheus.CounterValue, u.CPUSeconds, pod)
		metrics <- prometheus.MustNewConstMetric(requestsTotal, prometheus.CounterValue, float64(u.Requests), pod)
	}
}

func podOf(e model.Endpoint) string {
	if e.Name != "" {
		return e.Name
	}
	return e.Address
}

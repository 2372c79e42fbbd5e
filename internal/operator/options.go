package operator

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"taper.dev/taper/api/v1alpha1"
)

// Options are what the operator is started with.
type Options struct {
	// Version is what the operator says of itself.
	Version string
	// Source is asked for policies that name none.
	Source v1alpha1.Source
	// ClusterDomain is the suffix of service names.
	ClusterDomain string
	// Namespaces limits what is watched; empty for all.
	Namespaces []string
	// DualStack tells that istiod runs with ISTIO_DUAL_STACK.
	DualStack bool
	// Network is that of pods without a network label, in a mesh of several.
	Network string

	// IstiodURL is where istiod is asked what it serves; empty for not at all.
	IstiodURL string
	// IstiodTokenFile holds a token for that; it is read each time.
	IstiodTokenFile string

	// MetricsAddress serves metrics and the page, HealthAddress the probes.
	MetricsAddress, HealthAddress string
	// ProfileAddress serves profiles of the operator itself; 0 for not at all.
	ProfileAddress string
	// EndpointMetrics bounds the endpoints that have metrics of their own, in all.
	EndpointMetrics int

	// LeaderElection is off only where there is but one replica.
	LeaderElection bool
	// LeaderNamespace is where the lease is; that of the pod when empty.
	LeaderNamespace string
}

// Leadership is handed over fast, because an endpoint that left stays with every
// Envoy until somebody acts. One that stands by looks at the lease after retryPeriod
// and up to 120 % of it more: it may see the last renewal that late, and as late that
// the lease has run out. So a leader that dies is replaced after 4.3 s at most.
const (
	leaseName     = "taper-operator"
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 300 * time.Millisecond
)

// Validate says what is wrong with the options, and what would be right.
func (o *Options) Validate() error {
	switch o.Source.Type {
	case v1alpha1.Prometheus, v1alpha1.VictoriaMetrics:
		if o.Source.URL == "" {
			return fmt.Errorf("source type %s needs a URL, such as http://vmsingle.monitoring:8428", o.Source.Type)
		}
	case v1alpha1.ResourceMetrics:
		if o.Source.URL != "" {
			return fmt.Errorf("source type %s takes no URL; want Prometheus or VictoriaMetrics with it", o.Source.Type)
		}
	default:
		return fmt.Errorf("source type %q is unknown; want Prometheus, VictoriaMetrics or ResourceMetrics", o.Source.Type)
	}
	if err := Check(&o.Source); err != nil {
		return fmt.Errorf("the default source: %w", err)
	}
	if o.ClusterDomain == "" {
		return errors.New("the cluster domain is empty; want one such as cluster.local")
	}
	if o.IstiodURL != "" {
		if u, err := url.Parse(o.IstiodURL); err != nil || u.Host == "" || u.User != nil {
			return errors.New("istiod's URL is not usable; want one such as http://istiod.istio-system:15014")
		}
	}
	return nil
}

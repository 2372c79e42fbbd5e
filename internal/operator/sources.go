package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/source"
	"taper.dev/taper/internal/source/promql"
)

// sourceRef is what makes two sources one: policies with the same are asked for
// together. It can be compared, unlike the spec itself.
type sourceRef struct {
	// namespace is where Secrets are looked for; empty when none is named, so that
	// policies of all namespaces share a source without any.
	namespace string
	// spec is the source as canonical JSON: its keys are sorted.
	spec string
}

func refOf(namespace string, spec *v1alpha1.Source) (sourceRef, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return sourceRef{}, fmt.Errorf("reading the source: %w", err)
	}
	ref := sourceRef{spec: string(text)}
	if spec.Auth != nil || spec.TLS != nil && spec.TLS.CASecretName != "" {
		ref.namespace = namespace
	}
	return ref, nil
}

func (r sourceRef) source() v1alpha1.Source {
	var spec v1alpha1.Source
	// It was marshalled from the very type.
	_ = json.Unmarshal([]byte(r.spec), &spec)
	return spec
}

// String names the source in logs and metrics, without anything that may be secret.
func (r sourceRef) String() string {
	spec := r.source()
	if spec.Type == v1alpha1.ResourceMetrics {
		return "metrics.k8s.io"
	}
	u, err := url.Parse(spec.URL)
	if err != nil {
		return string(spec.Type)
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// sources opens sources and keeps them open: connections are worth keeping.
type sources struct {
	// secrets reads Secrets one by one, past the cache: a cache would watch them all.
	secrets client.Reader
	// resourceMetrics is the source that needs no store.
	resourceMetrics source.Source

	mu   sync.Mutex
	open map[sourceRef]opened
}

// opened is a source and the versions of the Secrets that it was opened with.
type opened struct {
	source.Source
	versions string
}

// Open returns the source of a ref. Secrets are read each time, so that credentials
// that were rotated are used with the next cycle.
func (s *sources) Open(ctx context.Context, ref sourceRef) (source.Source, error) {
	spec := ref.source()
	if spec.Type == v1alpha1.ResourceMetrics {
		return s.resourceMetrics, nil
	}
	config, versions, err := s.config(ctx, ref.namespace, &spec)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.open[ref]; ok && known.versions == versions {
		return known.Source, nil
	}
	src, err := promql.New(config)
	if err != nil {
		return nil, err
	}
	s.open[ref] = opened{src, versions}
	return src, nil
}

// Forget closes sources that no policy uses any more.
func (s *sources) Forget(ref sourceRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, ref)
}

// Check reports what is wrong with a source as far as that can be told without
// asking it.
func Check(spec *v1alpha1.Source) error {
	if spec.Type == v1alpha1.ResourceMetrics {
		return nil
	}
	_, err := promql.New(plainConfig(spec))
	return err
}

// plainConfig is the configuration but for what is in Secrets.
func plainConfig(spec *v1alpha1.Source) promql.Config {
	q := spec.Queries
	config := promql.Config{
		URL: spec.URL, Headers: spec.Headers, Window: defaultWindow,
		Label: promql.DefaultLabel, NamespaceLabel: promql.DefaultNamespaceLabel,
		CPU: metric(q.CPU, promql.ClusterCPU), Requests: metric(q.Requests, promql.ClusterRequests),
		InFlight: metric(q.InFlight, promql.ClusterInFlight),
	}
	if spec.Window != nil {
		config.Window = spec.Window.Duration
	}
	if q.PodLabel != "" {
		config.Label = q.PodLabel
	}
	if q.NamespaceLabel != "" {
		config.NamespaceLabel = q.NamespaceLabel
	}
	if spec.TLS != nil {
		config.ServerName = spec.TLS.ServerName
	}
	return config
}

func metric(override *v1alpha1.Query, standard promql.Metric) promql.Metric {
	if override == nil {
		return standard
	}
	if override.Disabled {
		return promql.Metric{}
	}
	kind := promql.Counter
	if override.Type == "Gauge" {
		kind = promql.Gauge
	}
	metric := promql.Metric{Selector: override.Selector, Type: kind}
	if override.Scale != nil {
		metric.Scale = override.Scale.AsApproximateFloat64()
	}
	return metric
}

// config adds what the Secrets hold, and says which versions of them that was.
func (s *sources) config(ctx context.Context, namespace string, spec *v1alpha1.Source) (config promql.Config, versions string, err error) {
	config = plainConfig(spec)
	if a := spec.Auth; a != nil {
		secret, err := s.secret(ctx, namespace, a.SecretName)
		if err != nil {
			return config, "", err
		}
		versions = secret.ResourceVersion
		if err := authorize(&config, a, secret); err != nil {
			return config, "", err
		}
	}
	if t := spec.TLS; t != nil && t.CASecretName != "" {
		secret, err := s.secret(ctx, namespace, t.CASecretName)
		if err != nil {
			return config, "", err
		}
		versions += "/" + secret.ResourceVersion
		ca, err := key(secret, "", "ca.crt")
		if err != nil {
			return config, "", err
		}
		config.CAPEM = ca
	}
	return config, versions, nil
}

func (s *sources) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	var secret corev1.Secret
	if err := s.secrets.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err)
	}
	return &secret, nil
}

func authorize(config *promql.Config, auth *v1alpha1.Auth, secret *corev1.Secret) error {
	if auth.Type == "Bearer" {
		token, err := key(secret, auth.TokenKey, "token")
		config.BearerToken = promql.NewSecret(string(token))
		return err
	}
	user, err := key(secret, auth.UsernameKey, "username")
	if err != nil {
		return err
	}
	password, err := key(secret, auth.PasswordKey, "password")
	config.Username, config.Password = string(user), promql.NewSecret(string(password))
	return err
}

func key(secret *corev1.Secret, name, standard string) ([]byte, error) {
	if name == "" {
		name = standard
	}
	value, ok := secret.Data[name]
	if !ok || len(value) == 0 {
		return nil, fmt.Errorf("the Secret %s/%s has no key %q", secret.Namespace, secret.Name, name)
	}
	return value, nil
}

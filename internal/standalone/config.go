package standalone

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source/promql"
)

// Config is the file of `taper balance`. Unknown keys are errors.
type Config struct {
	// Listen is the address at which Envoys ask for endpoints.
	Listen string `yaml:"listen"`
	// Interval is the time between decisions.
	Interval Duration `yaml:"interval"`
	// StateFile, where set, keeps weights and estimates over a restart.
	StateFile string          `yaml:"stateFile"`
	Source    SourceConfig    `yaml:"source"`
	Services  []ServiceConfig `yaml:"services"`
}

// SourceConfig names one source: exactly one of its fields is set.
type SourceConfig struct {
	PromQL *PromQLConfig `yaml:"promql"`
	Envoy  *EnvoyConfig  `yaml:"envoy"`
}

// PromQLConfig asks a Prometheus or VictoriaMetrics.
type PromQLConfig struct {
	URL             string            `yaml:"url"`
	Headers         map[string]string `yaml:"headers"`
	BearerTokenFile string            `yaml:"bearerTokenFile"`
	CAFile          string            `yaml:"caFile"`
	// Label is the one whose value names an endpoint: its name, address or host.
	Label string `yaml:"label"`
	// Window is what rates are taken over; twice the interval by default.
	Window   Duration     `yaml:"window"`
	CPU      MetricConfig `yaml:"cpu"`
	Requests MetricConfig `yaml:"requests"`
}

// MetricConfig selects the series of one metric.
type MetricConfig struct {
	Selector string `yaml:"selector"`
	// Type is counter (the default) or gauge.
	Type string `yaml:"type"`
}

// EnvoyConfig asks the admin interface of every Envoy that sends requests.
type EnvoyConfig struct {
	Admin []string `yaml:"admin"`
}

// ServiceConfig is one service.
type ServiceConfig struct {
	// Name is the EDS service name, which is the cluster's name unless Envoy's
	// configuration says otherwise.
	Name string `yaml:"name"`
	// Cluster is the name in Envoy's statistics; Name by default.
	Cluster string `yaml:"cluster"`
	// Endpoints lists the members; DNS (host:port) looks them up instead.
	Endpoints []EndpointConfig `yaml:"endpoints"`
	DNS       string           `yaml:"dns"`
	Strategy  string           `yaml:"strategy"`
	// Capacity is the CPU of each endpoint that states none, in cores.
	Capacity  float64         `yaml:"capacity"`
	Limits    LimitsConfig    `yaml:"limits"`
	Freshness FreshnessConfig `yaml:"freshness"`
}

// EndpointConfig is one member.
type EndpointConfig struct {
	Address  string  `yaml:"address"`
	Name     string  `yaml:"name"`
	Capacity float64 `yaml:"capacity"`
}

// LimitsConfig bounds shares; zero values stand for the defaults.
type LimitsConfig struct {
	Utilization float64  `yaml:"utilization"`
	MinShare    float64  `yaml:"minShare"`
	MaxShare    float64  `yaml:"maxShare"`
	Step        float64  `yaml:"step"`
	DeadBand    *float64 `yaml:"deadBand"`
	Ramp        Duration `yaml:"ramp"`
}

// FreshnessConfig says when samples are too old or too few; zero values stand
// for the defaults.
type FreshnessConfig struct {
	MaxAge       Duration `yaml:"maxAge"`
	ReleaseAfter Duration `yaml:"releaseAfter"`
	Coverage     *float64 `yaml:"coverage"`
}

// Duration is a time.Duration in YAML, such as 30s.
type Duration time.Duration

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := time.ParseDuration(node.Value)
	if err != nil || parsed < 0 {
		return fmt.Errorf("line %d: bad duration %q: it takes a number and a unit, such as 30s or 5m", node.Line, node.Value)
	}
	*d = Duration(parsed)
	return nil
}

const (
	defaultListen   = "127.0.0.1:18000"
	defaultInterval = 30 * time.Second
	// maxConfigBytes bounds what is read from a path that may be anything.
	maxConfigBytes = 16 << 20
)

// Load reads and checks a configuration file. Errors name the file and, for what
// the YAML says, the line.
func Load(path string) (*Config, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfigBytes))
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	cfg, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

// Parse checks a configuration and fills in its defaults.
func Parse(text []byte) (*Config, error) {
	cfg := &Config{Listen: defaultListen, Interval: Duration(defaultInterval)}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(cfg); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the configuration is empty: it needs a source and services")
		}
		return nil, explain(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document: only one is read")
	}
	return cfg, cfg.check()
}

func (c *Config) check() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen is %q: it takes host:port, such as %s", c.Listen, defaultListen)
	}
	if err := c.Source.check(time.Duration(c.Interval)); err != nil {
		return err
	}
	if len(c.Services) == 0 {
		return errors.New("services is empty: name at least one")
	}
	seen := map[string]bool{}
	for i, s := range c.Services {
		if s.Name == "" {
			return fmt.Errorf("service %d has no name: it takes the name by which Envoy asks for its endpoints", i+1)
		}
		if seen[s.Name] {
			return fmt.Errorf("service %q is there twice", s.Name)
		}
		seen[s.Name] = true
		if err := s.check(time.Duration(c.Interval)); err != nil {
			return fmt.Errorf("service %q: %w", s.Name, err)
		}
	}
	return nil
}

func (s SourceConfig) check(interval time.Duration) error {
	if (s.PromQL == nil) == (s.Envoy == nil) {
		return errors.New("source takes exactly one of promql and envoy")
	}
	if s.PromQL != nil {
		if _, err := promql.New(s.PromQL.source(interval)); err != nil {
			return fmt.Errorf("source.promql: %w", err)
		}
	}
	if s.Envoy != nil && len(s.Envoy.Admin) == 0 {
		return errors.New("source.envoy.admin is empty: list the admin address of every Envoy, such as http://127.0.0.1:9901")
	}
	return nil
}

func (s ServiceConfig) check(interval time.Duration) error {
	if (len(s.Endpoints) == 0) == (s.DNS == "") {
		return errors.New("it takes exactly one of endpoints and dns")
	}
	if s.DNS != "" {
		if err := checkDNS(s.DNS); err != nil {
			return err
		}
	}
	seen := map[netip.AddrPort]bool{}
	for _, e := range s.Endpoints {
		address, err := netip.ParseAddrPort(e.Address)
		if err != nil || address.Port() == 0 || address.Addr().Zone() != "" {
			return fmt.Errorf("endpoint address %q: it takes ip:port, such as 10.0.0.1:8080; for a name use dns", e.Address)
		}
		if seen[address] {
			return fmt.Errorf("endpoint %s is there twice", e.Address)
		}
		seen[address] = true
		if e.Capacity < 0 {
			return fmt.Errorf("endpoint %s has capacity %g: it takes cores, above 0", e.Address, e.Capacity)
		}
	}
	_, err := s.policy(interval)
	return err
}

func checkDNS(name string) error {
	host, port, err := net.SplitHostPort(name)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || host == "" || port == "0" {
		return fmt.Errorf("dns is %q: it takes name:port, such as shop.internal:8080", name)
	}
	return nil
}

// policy applies what the service sets over the defaults.
func (s ServiceConfig) policy(interval time.Duration) (balance.Policy, error) {
	p := balance.DefaultPolicy(interval)
	if s.Strategy != "" {
		strategy, err := balance.ParseStrategy(s.Strategy)
		if err != nil {
			return p, err
		}
		p.Strategy = strategy
	}
	override(&p.Capacity, s.Capacity)
	override(&p.UtilizationLimit, s.Limits.Utilization)
	override(&p.MinShare, s.Limits.MinShare)
	override(&p.MaxShare, s.Limits.MaxShare)
	override(&p.MaxStep, s.Limits.Step)
	override(&p.Ramp, time.Duration(s.Limits.Ramp))
	override(&p.MaxAge, time.Duration(s.Freshness.MaxAge))
	override(&p.ReleaseAfter, time.Duration(s.Freshness.ReleaseAfter))
	// 0 is a sensible value of these two, so only absence stands for the default.
	if s.Limits.DeadBand != nil {
		p.DeadBand = *s.Limits.DeadBand
	}
	if s.Freshness.Coverage != nil {
		p.Coverage = *s.Freshness.Coverage
	}
	return p, p.Validate()
}

func override[T comparable](setting *T, value T) {
	var unset T
	if value != unset {
		*setting = value
	}
}

func (s ServiceConfig) members() Members {
	if s.DNS != "" {
		return DNS{Name: s.DNS, Resolver: net.DefaultResolver}
	}
	list := make(Static, len(s.Endpoints))
	for i, e := range s.Endpoints {
		list[i] = model.Endpoint(e)
	}
	return list
}

// source is the configuration of the PromQL source at the given interval.
func (p PromQLConfig) source(interval time.Duration) promql.Config {
	window := time.Duration(p.Window)
	if window == 0 {
		window = 2 * interval
	}
	return promql.Config{
		URL: p.URL, Headers: p.Headers, BearerTokenFile: p.BearerTokenFile, CAFile: p.CAFile,
		Label: p.Label, Window: window, CPU: p.CPU.metric(), Requests: p.Requests.metric(),
	}
}

func (m MetricConfig) metric() promql.Metric {
	return promql.Metric{Selector: m.Selector, Type: promql.MetricType(m.Type)}
}

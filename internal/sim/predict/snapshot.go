package predict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

const (
	snapshotKind    = "ServiceSnapshot"
	snapshotVersion = 1
	// maxSnapshot bounds what is read, in bytes: 2,000 endpoints over 100 windows.
	maxSnapshot = 8 << 20
)

// snapshot is the file. It is YAML, of which JSON is a part.
type snapshot struct {
	Kind    string `yaml:"kind" json:"kind"`
	Version int    `yaml:"version" json:"version"`
	Service string `yaml:"service" json:"service"`
	// WindowS is how long each window is; Windows are their ends.
	WindowS   float64            `yaml:"window_s" json:"window_s"`
	Windows   []time.Time        `yaml:"windows" json:"windows"`
	Proxies   int                `yaml:"proxies" json:"proxies,omitempty"`
	Policy    string             `yaml:"policy" json:"policy,omitempty"`
	Latency   *snapshotLatency   `yaml:"latency" json:"latency,omitempty"`
	Balance   *snapshotBalance   `yaml:"balance" json:"balance,omitempty"`
	Endpoints []snapshotEndpoint `yaml:"endpoints" json:"endpoints"`
}

type snapshotLatency struct {
	P50 float64 `yaml:"p50_ms" json:"p50_ms"`
	P99 float64 `yaml:"p99_ms" json:"p99_ms"`
}

// snapshotBalance is what decides where weights come to rest; what is 0 is the default.
type snapshotBalance struct {
	Strategy         string  `yaml:"strategy" json:"strategy,omitempty"`
	IntervalS        float64 `yaml:"interval_s" json:"interval_s,omitempty"`
	UtilizationLimit float64 `yaml:"utilization_limit" json:"utilization_limit,omitempty"`
	MinShare         float64 `yaml:"min_share" json:"min_share,omitempty"`
	MaxShare         float64 `yaml:"max_share" json:"max_share,omitempty"`
	MaxStep          float64 `yaml:"max_step" json:"max_step,omitempty"`
	// DeadBand may well be 0.
	DeadBand *float64 `yaml:"dead_band" json:"dead_band,omitempty"`
}

// snapshotEndpoint has one figure per window; null is what was not measured. A list that
// was measured in no window can be left out.
type snapshotEndpoint struct {
	Address  string     `yaml:"address" json:"address"`
	Name     string     `yaml:"name" json:"name,omitempty"`
	Capacity float64    `yaml:"capacity_cores" json:"capacity_cores"`
	CPU      []*float64 `yaml:"cpu_cores,flow" json:"cpu_cores,omitempty"`
	Requests []*float64 `yaml:"requests_per_s,flow" json:"requests_per_s,omitempty"`
	InFlight []*float64 `yaml:"in_flight,flow" json:"in_flight,omitempty"`
}

// Read reads a service from a file that [Service.Write] wrote, or a person. Unknown keys
// are errors, and so is a service that nothing can be said about.
func Read(r io.Reader) (*Service, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSnapshot+1))
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	if len(text) > maxSnapshot {
		return nil, fmt.Errorf("the snapshot has more than %d MiB: is it the right file?", maxSnapshot>>20)
	}
	file := &snapshot{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(file); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the snapshot is empty: taper sim predict --config FILE --save SNAPSHOT writes one")
		}
		return nil, explain(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document: only one is read")
	}
	s, err := file.service()
	if err != nil {
		return nil, err
	}
	return s, s.check()
}

func (f *snapshot) service() (*Service, error) {
	if f.Kind != snapshotKind {
		return nil, fmt.Errorf("kind is %q: a snapshot has kind: %s", f.Kind, snapshotKind)
	}
	if f.Version != snapshotVersion {
		return nil, fmt.Errorf("version is %d: this taper reads version %d", f.Version, snapshotVersion)
	}
	if !(f.WindowS >= 0.1 && f.WindowS <= 3600) {
		return nil, fmt.Errorf("window_s is %g: it takes 0.1 to 3600 seconds", f.WindowS)
	}
	s := &Service{
		Name: f.Service, Length: seconds(f.WindowS),
		Proxies: f.Proxies, Choice: f.Policy,
	}
	s.Policy = f.Balance.policy(s.Length)
	if f.Latency != nil {
		s.Today = &Latency{P50: f.Latency.P50 / 1000, P99: f.Latency.P99 / 1000}
	}
	for _, end := range f.Windows {
		s.Windows = append(s.Windows, Window{End: end, Samples: model.Snapshot{}})
	}
	for _, e := range f.Endpoints {
		s.Endpoints = append(s.Endpoints, model.Endpoint{Address: e.Address, Name: e.Name, Capacity: e.Capacity})
		if err := e.into(s.Windows, s.Length); err != nil {
			return nil, fmt.Errorf("endpoint %q: %w", e.Address, err)
		}
	}
	return s, nil
}

// policy is the default one with what the file sets.
func (b *snapshotBalance) policy(window time.Duration) balance.Policy {
	p := balance.DefaultPolicy(window)
	if b == nil {
		return p
	}
	if b.IntervalS != 0 {
		p = balance.DefaultPolicy(seconds(b.IntervalS))
	}
	if b.DeadBand != nil {
		p.DeadBand = *b.DeadBand
	}
	if b.Strategy != "" {
		p.Strategy = balance.Strategy(b.Strategy)
	}
	for _, set := range []struct {
		to   *float64
		from float64
	}{{&p.UtilizationLimit, b.UtilizationLimit}, {&p.MinShare, b.MinShare}, {&p.MaxShare, b.MaxShare}, {&p.MaxStep, b.MaxStep}} {
		if set.from != 0 {
			*set.to = set.from
		}
	}
	return p
}

// seconds is a time that a file may give as anything; what no time can be is 0.
func seconds(s float64) time.Duration {
	if !(s > 0 && s < 1e6) {
		return 0
	}
	return time.Duration(math.Round(s * float64(time.Second)))
}

// into puts the endpoint's figures into the windows' samples.
func (e *snapshotEndpoint) into(windows []Window, length time.Duration) error {
	for _, list := range []struct {
		key    string
		values []*float64
		of     func(*model.Sample) *model.Reading
	}{
		{"cpu_cores", e.CPU, func(s *model.Sample) *model.Reading { return &s.CPU }},
		{"requests_per_s", e.Requests, func(s *model.Sample) *model.Reading { return &s.Requests }},
		{"in_flight", e.InFlight, func(s *model.Sample) *model.Reading { return &s.InFlight }},
	} {
		if n := len(list.values); n != 0 && n != len(windows) {
			return fmt.Errorf("%s has %d figures for %d windows: it takes one each, null where nothing was measured", list.key, n, len(windows))
		}
		for i, value := range list.values {
			if value == nil {
				continue
			}
			reading := model.Reading{Value: *value, At: windows[i].End}
			if !reading.Valid() {
				return fmt.Errorf("%s is %g in the window that ends at %s: it takes a number from 0 to 1e9, or null where nothing was measured",
					list.key, *value, windows[i].End.Format(time.RFC3339))
			}
			sample := windows[i].Samples[e.Address]
			*list.of(&sample) = reading
			sample.Window = length
			windows[i].Samples[e.Address] = sample
		}
	}
	return nil
}

// Write writes the service as a snapshot, in JSON. [Read] gives the same service again.
func (s *Service) Write(w io.Writer) error {
	file := snapshot{
		Kind: snapshotKind, Version: snapshotVersion, Service: s.Name, WindowS: s.Length.Seconds(),
		Proxies: s.Proxies, Policy: s.Choice,
		Balance: &snapshotBalance{
			Strategy: string(s.Policy.Strategy), IntervalS: s.Policy.Interval.Seconds(), UtilizationLimit: s.Policy.UtilizationLimit,
			MinShare: s.Policy.MinShare, MaxShare: s.Policy.MaxShare, MaxStep: s.Policy.MaxStep, DeadBand: &s.Policy.DeadBand,
		},
	}
	if s.Today != nil {
		file.Latency = &snapshotLatency{P50: 1000 * s.Today.P50, P99: 1000 * s.Today.P99}
	}
	for _, window := range s.Windows {
		file.Windows = append(file.Windows, window.End)
	}
	for _, e := range s.Endpoints {
		file.Endpoints = append(file.Endpoints, snapshotEndpoint{
			Address: e.Address, Name: e.Name, Capacity: e.Capacity,
			CPU:      s.figures(e, func(s model.Sample) model.Reading { return s.CPU }),
			Requests: s.figures(e, func(s model.Sample) model.Reading { return s.Requests }),
			InFlight: s.figures(e, func(s model.Sample) model.Reading { return s.InFlight }),
		})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(file)
}

// figures are an endpoint's, one per window; nil if there are none.
func (s *Service) figures(e model.Endpoint, of func(model.Sample) model.Reading) []*float64 {
	list, measured := make([]*float64, len(s.Windows)), false
	for i, window := range s.Windows {
		if r := of(window.Samples[e.Address]); r.Valid() {
			list[i], measured = &r.Value, true
		}
	}
	if !measured {
		return nil
	}
	return list
}

var unknownKey = regexp.MustCompile(`^line (\d+): field (\S+) not found in type predict\.(\w+)$`)

// explain turns the first of the decoder's errors into one line that says which keys
// there are.
func explain(err error) error {
	typeError, ok := errors.AsType[*yaml.TypeError](err)
	if !ok || len(typeError.Errors) == 0 {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	m := unknownKey.FindStringSubmatch(typeError.Errors[0])
	if m == nil {
		return errors.New(typeError.Errors[0])
	}
	for _, section := range []any{snapshot{}, snapshotLatency{}, snapshotBalance{}, snapshotEndpoint{}} {
		if t := reflect.TypeOf(section); t.Name() == m[3] {
			known := make([]string, t.NumField())
			for i := range known {
				known[i], _, _ = strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			}
			return fmt.Errorf("line %s: unknown key %q: known here are %s", m[1], m[2], strings.Join(known, ", "))
		}
	}
	return errors.New(typeError.Errors[0])
}

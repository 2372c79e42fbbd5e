package scenario

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// document is the YAML of a scenario, before it is checked. What is a pointer may be left
// out where 0 means something else.
type document struct {
	About     string       `yaml:"about"`
	Rounds    int          `yaml:"rounds"`
	Seed      uint64       `yaml:"seed"`
	WarmUp    seconds      `yaml:"warm-up"`
	Measure   seconds      `yaml:"measure"`
	Proxies   *int         `yaml:"proxies"`
	RoundTrip seconds      `yaml:"round-trip"`
	Timeout   seconds      `yaml:"timeout"`
	Retries   int          `yaml:"retries"`
	Load      loadText     `yaml:"load"`
	Endpoints []endpoints  `yaml:"endpoints"`
	Changes   []changeText `yaml:"changes"`
	Control   loopText     `yaml:"control"`
	Arms      []armText    `yaml:"arms"`
}

// Defaults of what a scenario does not say.
const (
	defaultRounds   = 3
	defaultSeed     = 1
	defaultWarmUp   = 30
	defaultMeasure  = 120
	defaultSigma    = 0.8
	defaultInterval = 15 * time.Second
)

// loadText is one of a rate, steps and a trace.
type loadText struct {
	Rate     *float64   `yaml:"rate"`
	Steps    []stepText `yaml:"steps"`
	Trace    string     `yaml:"trace"`
	Arrivals string     `yaml:"arrivals"`
}

type stepText struct {
	From seconds  `yaml:"from"`
	Rate *float64 `yaml:"rate"`
}

// endpoints are some that are alike.
type endpoints struct {
	Kind         string   `yaml:"kind"`
	Count        *int     `yaml:"count"`
	Cores        *float64 `yaml:"cores"`
	Idle         float64  `yaml:"idle"`
	Demand       *seconds `yaml:"demand"`
	Distribution string   `yaml:"distribution"`
	Sigma        *float64 `yaml:"sigma"`
	File         string   `yaml:"file"`
	Discipline   string   `yaml:"discipline"`
	From         seconds  `yaml:"from"`
	Until        seconds  `yaml:"until"`
}

// changeText happens to one endpoint, or to all of a kind.
type changeText struct {
	Endpoint string   `yaml:"endpoint"`
	Kind     string   `yaml:"kind"`
	At       seconds  `yaml:"at"`
	Until    seconds  `yaml:"until"`
	Demand   *float64 `yaml:"demand"`
	Stolen   *float64 `yaml:"stolen"`
	Down     bool     `yaml:"down"`
}

type armText struct {
	Name    string       `yaml:"name"`
	Policy  string       `yaml:"policy"`
	Weights *weightsText `yaml:"weights"`
}

// weightsText is a strategy, or one with all that goes with it.
type weightsText struct {
	Strategy string `yaml:"strategy"`
	// Static weights are set once, from the true demands.
	Static bool `yaml:"static"`
	loopText
}

// UnmarshalText reads the strategy alone.
func (w *weightsText) UnmarshalText(text []byte) error {
	w.Strategy = string(text)
	return nil
}

// loopText is a control loop: what it sees and how it reacts.
type loopText struct {
	viewText
	limitsText
}

// viewText is how a loop sees the service, and how soon it is obeyed.
type viewText struct {
	Interval    *seconds   `yaml:"interval"`
	Delay       *seconds   `yaml:"delay"`
	Propagation *seconds   `yaml:"propagation"`
	Noise       *float64   `yaml:"noise"`
	Missing     *float64   `yaml:"missing"`
	Evidence    string     `yaml:"evidence"`
	Outages     []spanText `yaml:"outages"`
}

// limitsText is what [balance.Policy] has, by the names of its fields.
type limitsText struct {
	UtilizationLimit *float64 `yaml:"utilization-limit"`
	MinShare         *float64 `yaml:"min-share"`
	MaxShare         *float64 `yaml:"max-share"`
	MaxStep          *float64 `yaml:"max-step"`
	DeadBand         *float64 `yaml:"dead-band"`
	Ramp             *seconds `yaml:"ramp"`
	EqualWeight      *uint32  `yaml:"equal-weight"`
	MaxAge           *seconds `yaml:"max-age"`
	ReleaseAfter     *seconds `yaml:"release-after"`
	Coverage         *float64 `yaml:"coverage"`
}

type spanText struct {
	From  seconds `yaml:"from"`
	Until seconds `yaml:"until"`
}

// or takes from another struct what one leaves open.
func or[T any](own, other T) T {
	to, from := reflect.ValueOf(&own).Elem(), reflect.ValueOf(other)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return own
}

// seconds is a duration in a document.
type seconds float64

var errDuration = errors.New("it takes a number and a unit, such as 30s, 5m or 2.73ms")

// UnmarshalText reads what [time.ParseDuration] does, and no negative one.
func (s *seconds) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 {
		return errDuration
	}
	*s = seconds(d.Seconds())
	return nil
}

// duration is exact to the nanosecond that was read.
func (s seconds) duration() time.Duration {
	return time.Duration(float64(s)*float64(time.Second) + 0.5)
}

func (s seconds) String() string { return fmt.Sprint(s.duration()) }

// said lists the keys of a section that the document says.
func said(section any) []string {
	v := reflect.ValueOf(section)
	var keys []string
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			keys = append(keys, v.Type().Field(i).Tag.Get("yaml"))
		}
	}
	return keys
}

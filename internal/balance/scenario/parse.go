// Package scenario is a small language for what a balancing decision should do
// over time. A scenario says who is there, what is measured, and what is expected
// when; [Parse] reads it and [Scenario.Run] plays it against [balance.Decide].
//
//	# Three endpoints, one of them slow.
//	policy strategy=equal-load interval=10s
//	endpoint a
//	endpoint b
//	endpoint c capacity=2 from 2m until 8m
//	serve 300/s
//	  demand a 2ms
//	  demand b 6ms
//	  demand b 12ms from 5m
//	  idle 0.01
//	eval at 30s
//	  expect share a > share b
//	  expect share a = 0.75 within 2%
//	  expect held DeadBand
//	  expect reason b MinShare
//
// "serve" closes the loop: requests follow the shares that were decided and CPU
// follows requests. "load STEP" gives recorded series instead, with the values of
// every step in turn: a number, NUMBERxTIMES, NaN, or _ for no sample.
//
//	load 10s
//	  cpu a 0.2x6 _x3
//	  requests a 100x9
package scenario

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"taper.dev/taper/internal/balance"
)

// Scenario is a parsed one.
type Scenario struct {
	policy    balance.Policy
	endpoints []endpoint
	serve     *serve
	step      time.Duration
	series    []series
	evals     []eval
}

// endpoint is there from one time until another (0: to the end).
type endpoint struct {
	name        string
	capacity    float64
	from, until time.Duration
}

// serve is the closed loop: a load shared out by weights.
type serve struct {
	rate    float64
	idle    float64
	demands []demand
	noCPU   []blackout
}

// demand is what a request costs on an endpoint from a time on.
type demand struct {
	name    string
	seconds float64
	from    time.Duration
}

// blackout is a time without samples of one endpoint, or of "all".
type blackout struct {
	name        string
	from, until time.Duration
}

// series is recorded values, one a step; a nil value is no sample.
type series struct {
	metric, name string
	values       []*float64
}

type eval struct {
	at      time.Duration
	expects []expectation
}

type expectation struct {
	line int
	text string
	args []string
}

// Parse reads a scenario; an error names the line.
func Parse(r io.Reader) (*Scenario, error) {
	p := &parser{s: &Scenario{policy: balance.DefaultPolicy(10 * time.Second)}}
	scan := bufio.NewScanner(r)
	for n := 1; scan.Scan(); n++ {
		text, _, _ := strings.Cut(scan.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		p.line = n
		if err := p.statement(fields); err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", n, strings.TrimSpace(text), err)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("reading the scenario: %w", err)
	}
	return p.s, p.s.check()
}

func (s *Scenario) check() error {
	switch {
	case len(s.endpoints) == 0:
		return fmt.Errorf("the scenario has no endpoint")
	case len(s.evals) == 0:
		return fmt.Errorf("the scenario expects nothing: it needs an eval")
	case s.serve != nil && len(s.series) > 0:
		return fmt.Errorf("a scenario has either serve or load, not both")
	}
	return s.policy.Validate()
}

type parser struct {
	s    *Scenario
	line int
}

func (p *parser) statement(f []string) error {
	switch f[0] {
	case "policy":
		return p.policy(f[1:])
	case "endpoint":
		return p.endpoint(f[1:])
	case "serve":
		return p.serveRate(f[1:])
	case "demand", "idle", "blackout":
		return p.serving(f)
	case "load":
		return p.load(f[1:])
	case "cpu", "requests", "inflight":
		return p.recorded(f)
	case "eval":
		return p.eval(f[1:])
	case "expect":
		return p.expect(f)
	}
	return fmt.Errorf("unknown statement: it is one of policy, endpoint, serve, demand, idle, blackout, load, cpu, requests, inflight, eval, expect")
}

func (p *parser) policy(settings []string) error {
	policy := &p.s.policy
	// The interval is the base of the others' defaults, so it is read first.
	for _, s := range settings {
		if v, ok := strings.CutPrefix(s, "interval="); ok {
			d, err := time.ParseDuration(v)
			if err != nil {
				return err
			}
			*policy = balance.DefaultPolicy(d)
		}
	}
	for _, s := range settings {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("%q is not KEY=VALUE", s)
		}
		if err := set(policy, key, value); err != nil {
			return err
		}
	}
	return nil
}

func set(policy *balance.Policy, key, value string) (err error) {
	numbers := map[string]*float64{
		"capacity": &policy.Capacity, "utilization": &policy.UtilizationLimit, "min-share": &policy.MinShare,
		"max-share": &policy.MaxShare, "max-step": &policy.MaxStep, "dead-band": &policy.DeadBand, "coverage": &policy.Coverage,
	}
	spans := map[string]*time.Duration{
		"interval": &policy.Interval, "ramp": &policy.Ramp, "max-age": &policy.MaxAge, "release-after": &policy.ReleaseAfter,
	}
	if n, ok := numbers[key]; ok {
		*n, err = strconv.ParseFloat(value, 64)
		return err
	}
	if d, ok := spans[key]; ok {
		*d, err = time.ParseDuration(value)
		return err
	}
	if key == "strategy" {
		policy.Strategy, err = balance.ParseStrategy(value)
		return err
	}
	return fmt.Errorf("unknown policy setting %q", key)
}

func (p *parser) endpoint(f []string) error {
	if len(f) == 0 {
		return fmt.Errorf("an endpoint needs a name")
	}
	e := endpoint{name: f[0]}
	rest := f[1:]
	if len(rest) > 0 && strings.HasPrefix(rest[0], "capacity=") {
		c, err := strconv.ParseFloat(strings.TrimPrefix(rest[0], "capacity="), 64)
		if err != nil {
			return err
		}
		e.capacity, rest = c, rest[1:]
	}
	var err error
	if e.from, e.until, err = window(rest); err != nil {
		return err
	}
	p.s.endpoints = append(p.s.endpoints, e)
	return nil
}

// window reads "[from T] [until T]".
func window(f []string) (from, until time.Duration, err error) {
	for len(f) >= 2 {
		d, err := time.ParseDuration(f[1])
		if err != nil {
			return 0, 0, err
		}
		switch f[0] {
		case "from":
			from = d
		case "until":
			until = d
		default:
			return 0, 0, fmt.Errorf("%q is neither from nor until", f[0])
		}
		f = f[2:]
	}
	if len(f) > 0 {
		return 0, 0, fmt.Errorf("%q is left over", f[0])
	}
	return from, until, nil
}

func (p *parser) serveRate(f []string) error {
	if len(f) != 1 || !strings.HasSuffix(f[0], "/s") {
		return fmt.Errorf("serve takes a rate such as 300/s")
	}
	rate, err := strconv.ParseFloat(strings.TrimSuffix(f[0], "/s"), 64)
	if err != nil {
		return err
	}
	p.s.serve = &serve{rate: rate}
	return nil
}

func (p *parser) serving(f []string) error {
	v := p.s.serve
	if v == nil || len(f) < 2 {
		return fmt.Errorf("%s takes an argument, under serve", f[0])
	}
	switch f[0] {
	case "idle":
		idle, err := strconv.ParseFloat(f[1], 64)
		v.idle = idle
		return err
	case "blackout":
		from, until, err := window(f[2:])
		v.noCPU = append(v.noCPU, blackout{f[1], from, until})
		return err
	}
	if len(f) < 3 {
		return fmt.Errorf("demand takes an endpoint and a time")
	}
	d, err := time.ParseDuration(f[2])
	if err != nil {
		return err
	}
	from, _, err := window(f[3:])
	v.demands = append(v.demands, demand{f[1], d.Seconds(), from})
	return err
}

func (p *parser) load(f []string) error {
	if len(f) != 1 {
		return fmt.Errorf("load takes the time between values")
	}
	step, err := time.ParseDuration(f[0])
	if err == nil && step <= 0 {
		err = fmt.Errorf("the time between values must be above 0")
	}
	p.s.step = step
	return err
}

// maxValues bounds a series: a typo in a repeat must not take all memory.
const maxValues = 100_000

func (p *parser) recorded(f []string) error {
	if p.s.step == 0 || len(f) < 3 {
		return fmt.Errorf("%s takes an endpoint and values, under load", f[0])
	}
	s := series{metric: f[0], name: f[1]}
	for _, word := range f[2:] {
		value, times, repeated := strings.Cut(word, "x")
		count := 1
		if repeated {
			n, err := strconv.Atoi(times)
			if err != nil || n < 1 || n > maxValues {
				return fmt.Errorf("%q repeats its value a wrong number of times", word)
			}
			count = n
		}
		var v *float64
		if value != "_" {
			parsed, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return err
			}
			v = &parsed
		}
		for range count {
			s.values = append(s.values, v)
		}
		if len(s.values) > maxValues {
			return fmt.Errorf("more than %d values", maxValues)
		}
	}
	p.s.series = append(p.s.series, s)
	return nil
}

func (p *parser) eval(f []string) error {
	if len(f) != 2 || f[0] != "at" {
		return fmt.Errorf("it is: eval at TIME")
	}
	at, err := time.ParseDuration(f[1])
	if err != nil {
		return err
	}
	if n := len(p.s.evals); n > 0 && at <= p.s.evals[n-1].at {
		return fmt.Errorf("evals must go forward in time")
	}
	p.s.evals = append(p.s.evals, eval{at: at})
	return nil
}

func (p *parser) expect(f []string) error {
	n := len(p.s.evals)
	if n == 0 || len(f) < 2 {
		return fmt.Errorf("expect takes a condition, under eval")
	}
	e := expectation{line: p.line, text: strings.Join(f[1:], " "), args: f[1:]}
	if _, err := e.compile(); err != nil {
		return err
	}
	p.s.evals[n-1].expects = append(p.s.evals[n-1].expects, e)
	return nil
}

package standalone

import (
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/balance"
)

const valid = `
source: {promql: {url: "http://127.0.0.1:9090", cpu: {selector: cpu}}}
services:
- name: shop
  endpoints: [{address: "10.0.0.1:80"}]
`

func TestExampleStatesTheDefaults(t *testing.T) {
	cfg, err := Load("../../examples/balance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := cfg.Services[0].policy(time.Duration(cfg.Interval))
	if err != nil {
		t.Fatal(err)
	}
	want := balance.DefaultPolicy(30 * time.Second)
	want.Capacity = 2
	if got != want {
		t.Errorf("the example says\n%+v, the defaults are\n%+v", got, want)
	}
	services, closeSources, err := wire(cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeSources()
	if len(services) != 1 {
		t.Errorf("%d services", len(services))
	}
}

func TestMinimalConfigIsFilledIn(t *testing.T) {
	cfg, err := Parse([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != defaultListen || time.Duration(cfg.Interval) != defaultInterval {
		t.Errorf("listen %q, interval %s", cfg.Listen, time.Duration(cfg.Interval))
	}
	if w := cfg.Source.PromQL.source(10 * time.Second).Window; w != 20*time.Second {
		t.Errorf("window %s, want twice the interval", w)
	}
}

func TestWrongConfigsSayWhatIsRight(t *testing.T) {
	service := func(lines string) string {
		return "source: {envoy: {admin: [\"http://127.0.0.1:1\"]}}\nservices:\n- name: shop\n" + lines
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":              {"", "is empty"},
		"not YAML":           {"listen: [", "line 1"},
		"unknown key":        {"listen: 127.0.0.1:1\nlisten_port: 3\n", `line 2: unknown key "listen_port": known here are listen, interval, stateFile, source, services`},
		"unknown inner key":  {service("  limits: {maximum: 1}\n"), `unknown key "maximum": known here are utilization`},
		"bad duration":       {"interval: 10x\n", `bad duration "10x": it takes a number and a unit`},
		"negative duration":  {"interval: -10s\n", `bad duration "-10s"`},
		"two documents":      {valid + "---\nlisten: a\n", "more than one"},
		"bad listen":         {strings.Replace(valid, "source:", "listen: nowhere\nsource:", 1), "host:port"},
		"no source":          {"services: [{name: a, dns: \"a:1\"}]\n", "exactly one of promql and envoy"},
		"no admin":           {"source: {envoy: {}}\n", "source.envoy.admin is empty"},
		"no services":        {"source: {envoy: {admin: [a]}}\n", "services is empty"},
		"no name":            {"source: {envoy: {admin: [a]}}\nservices: [{dns: \"a:1\"}]\n", "service 1 has no name"},
		"both members":       {service("  dns: a:1\n  endpoints: [{address: \"10.0.0.1:1\"}]\n"), "exactly one of endpoints and dns"},
		"name as address":    {service("  endpoints: [{address: \"shop:80\"}]\n"), "for a name use dns"},
		"twice":              {service("  endpoints: [{address: \"10.0.0.1:1\"}, {address: \"10.0.0.1:1\"}]\n"), "there twice"},
		"bad dns":            {service("  dns: shop\n"), "name:port"},
		"unknown strategy":   {service("  dns: a:1\n  strategy: fastest\n"), "equal-load, least-latency"},
		"out of bounds":      {service("  dns: a:1\n  limits: {utilization: 70}\n"), "utilization limit is 70"},
		"age below interval": {service("  dns: a:1\n  freshness: {maxAge: 1s}\n"), "maximum age"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.text))
			if err == nil {
				t.Fatal("it passed")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "standalone.") {
				t.Errorf("got %q, want one line with %q", err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(valid)
	f.Add("interval: 1e9s\nsource: {promql: {url: \"\\x00\"}}")
	f.Fuzz(func(t *testing.T, text string) {
		if cfg, err := Parse([]byte(text)); err == nil && len(cfg.Services) == 0 {
			t.Error("a configuration without services passed")
		}
	})
}

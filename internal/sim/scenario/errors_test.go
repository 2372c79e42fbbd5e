package scenario

import (
	"strings"
	"testing"
)

func TestWrongScenariosSayWhatIsRight(t *testing.T) {
	t.Parallel()
	weights := func(text string) string { return with("arms: [{name: a, policy: random, weights: " + text + "}]") }
	endpoint := func(text string) string { return with("endpoints: [{" + text + "}]") }
	for name, test := range map[string]struct{ text, want string }{
		"empty":             {"", "dir/test.yaml: it is empty"},
		"not YAML":          {"load: [", "line 1"},
		"too long":          {strings.Repeat("#", maxBytes+1), "more than 1048576 bytes"},
		"unknown key":       {with("warmup: 3s"), "line 6: warmup is unknown: known here are about, rounds, seed, warm-up"},
		"duration unit":     {with("measure: 120"), `line 6: measure is "120": it takes a number and a unit, such as 30s`},
		"negative duration": {with("measure: -5s"), `line 6: measure is "-5s"`},
		"no measure":        {with("measure: 0s"), "line 6: measure is 0s: it must be in 1ms..168h0m0s"},
		"long warm-up":      {with("warm-up: 200h"), "warm-up is 200h0m0s"},
		"rounds":            {with("rounds: 0"), "line 6: rounds is 0: it must be in 1..1000"},
		"retries":           {with("retries: -1"), "retries is -1"},
		"no proxies":        {with("proxies: 0"), "proxies is 0: it must be in 1..100000"},
		"proxies unsaid":    {strings.Replace(minimal, "proxies: 2", "", 1), "proxies is missing"},

		"load unsaid":       {strings.Replace(minimal, "load: {rate: 100}", "", 1), "load takes exactly one of rate, steps and trace"},
		"two loads":         {with("load: {rate: 1, trace: arrivals.csv}"), "exactly one"},
		"negative rate":     {with("load: {rate: -1}"), "load.rate is -1: it takes requests per second, above 0"},
		"rate NaN":          {with("load: {rate: .nan}"), "load.rate is NaN"},
		"rate infinite":     {with("load: {rate: .inf}"), "load.rate is +Inf"},
		"arrivals":          {with("load: {rate: 1, arrivals: bursty}"), `load.arrivals is "bursty": it is one of poisson, constant`},
		"too many requests": {with("load: {rate: 1e7}"), "some 1.5e+09 requests in 2m30s: the most are 1e+09"},
		"no steps":          {with("load: {steps: []}"), "has 0 steps"},
		"late first step":   {with("load: {steps: [{from: 5s, rate: 1}]}"), "load.steps[0].from is 5s: the first step begins at 0s"},
		"falling steps":     {with("load: {steps: [{rate: 1}, {from: 5s, rate: 1}, {from: 4s, rate: 1}]}"), "load.steps[2].from is 4s: it must be after"},
		"step without rate": {with("load: {steps: [{from: 0s}]}"), "load.steps[0].rate is missing"},
		"negative step":     {with("load: {steps: [{rate: -3}]}"), "load.steps[0].rate is -3"},
		"nothing in steps":  {with("load: {steps: [{rate: 0}]}"), "no rate above 0"},
		"constant steps":    {with("load: {steps: [{rate: 1}], arrivals: constant}"), "takes one rate and no steps"},
		"trace arrivals":    {with("load: {trace: arrivals.csv, arrivals: poisson}"), "leave it out"},
		"many in steps":     {with("load: {steps: [{rate: 1e7}]}"), "requests in 2m30s"},

		"no such file":     {with("load: {trace: none.csv}"), `line 5: load.trace is "none.csv": open none.csv: file does not exist`},
		"file outside":     {with("load: {trace: ../arrivals.csv}"), "in the folder of the scenario, or below it"},
		"absolute file":    {with("load: {trace: /dev/zero}"), "in the folder of the scenario, or below it"},
		"folder":           {with("load: {trace: folder}"), "it is no file"},
		"this folder":      {with("load: {trace: .}"), "in the folder of the scenario"},
		"falling trace":    {with("load: {trace: falling.csv}"), "falling.csv: request 2 is at 0.5, before the one ahead of it at 1"},
		"negative trace":   {with("load: {trace: negative.csv}"), "request 1 is at -1"},
		"trace of nothing": {with("load: {trace: zero.csv}"), "all requests come at 0"},
		"empty trace":      {with("load: {trace: empty.csv}"), "empty.csv has no numbers"},
		"words":            {with("load: {trace: words.csv}"), `words.csv: line 2 is "two": it takes one number`},
		"file NaN":         {with("load: {trace: nan.csv}"), `line 1 is "NaN"`},
		"file infinite":    {with("load: {trace: infinite.csv}"), `line 1 is "1e999"`},
		"long line":        {with("load: {trace: long.csv}"), "token too long"},

		"no endpoints":      {with("endpoints: []"), "endpoints is missing: name at least one"},
		"no demand":         {endpoint("kind: a"), "endpoints[0].demand is missing"},
		"demand of zero":    {endpoint("demand: 0s"), "endpoints[0].demand is 0s: it must be in 1µs..16m40s"},
		"negative demand":   {endpoint("demand: -3ms"), `endpoints[0].demand is "-3ms"`},
		"cores":             {endpoint("demand: 1ms, cores: 0"), "endpoints[0].cores is 0"},
		"cores NaN":         {endpoint("demand: 1ms, cores: .nan"), "endpoints[0].cores is NaN"},
		"idle":              {endpoint("demand: 1ms, idle: 1"), "endpoints[0].idle is 1: it takes cores used without requests, from 0 to less than the 1"},
		"negative idle":     {endpoint("demand: 1ms, idle: -0.1"), "endpoints[0].idle is -0.1"},
		"count":             {endpoint("demand: 1ms, count: 0"), "endpoints[0].count is 0"},
		"too many":          {endpoint("demand: 1ms, count: 100001"), "1 to 100000 endpoints in all"},
		"overflow":          {endpoint("demand: 1ms, count: 9223372036854775807}, {demand: 1ms, count: 9223372036854775807"), "1 to 100000 endpoints in all"},
		"kind":              {endpoint("demand: 1ms, kind: \"a\\tb\""), `endpoints[0].kind is "a\tb": it takes a name`},
		"long kind":         {endpoint("demand: 1ms, kind: " + strings.Repeat("k", 65)), "1 to 64 printable"},
		"distribution":      {endpoint("demand: 1ms, distribution: pareto"), `endpoints[0].distribution is "pareto": it is one of lognormal, exponential, constant, empirical`},
		"sigma":             {endpoint("demand: 1ms, sigma: 5"), "endpoints[0].sigma is 5: it must be in 0..3"},
		"sigma elsewhere":   {endpoint("demand: 1ms, distribution: constant, sigma: 1"), "sigma belongs to lognormal: the distribution is constant"},
		"file elsewhere":    {endpoint("demand: 1ms, file: demands.csv"), "takes distribution: empirical"},
		"no file":           {endpoint("distribution: empirical"), "endpoints[0].file is missing"},
		"negative demands":  {endpoint("distribution: empirical, file: negative.csv"), "demand 1 is -1"},
		"demands of zero":   {endpoint("distribution: empirical, file: zero.csv"), "the mean demand is 0 s"},
		"discipline":        {endpoint("demand: 1ms, discipline: lifo"), `endpoints[0].discipline is "lifo": it is one of processor-sharing, first-come-first-served`},
		"until before from": {endpoint("demand: 1ms, from: 5s, until: 4s"), "endpoints[0].until is 4s: it must be after from, which is 5s"},
		"two of one kind":   {endpoint("demand: 1ms}, {demand: 2ms"), `endpoints[1].kind is "endpoint" again, and not the same`},

		"change of nobody":  {with("changes: [{endpoint: endpoint-2, demand: 2}]"), `changes[0].endpoint is "endpoint-2", and no endpoint is: they are named KIND-NUMBER, such as endpoint-1`},
		"change of no kind": {with("changes: [{kind: slow, demand: 2}]"), `changes[0].kind is "slow", and no endpoint is: kinds are endpoint`},
		"change of both":    {with("changes: [{kind: endpoint, endpoint: endpoint-1, demand: 2}]"), "exactly one of endpoint and kind"},
		"change to nothing": {with("changes: [{kind: endpoint}]"), "changes[0] changes nothing"},
		"change of demand":  {with("changes: [{kind: endpoint, demand: 0}]"), "changes[0].demand is 0"},
		"stolen":            {with("changes: [{kind: endpoint, stolen: -1}]"), "changes[0].stolen is -1"},
		"change that ends":  {with("changes: [{kind: endpoint, at: 5s, until: 5s, down: true}]"), "changes[0].until is 5s: it must be after at, which is 5s"},
		"too many changes":  {with("endpoints: [{demand: 1ms, count: 10001}]", "changes: [{kind: endpoint, down: true}]"), "more than 10000 changes"},

		"no arms":            {with("arms: []"), "arms has 0: it takes 1 to 32"},
		"too many arms":      {with("arms: [" + strings.Repeat("{name: a, policy: random},", 33) + "]"), "arms has 33"},
		"no name":            {with("arms: [{policy: random}]"), `arms[0].name is ""`},
		"same name":          {with("arms: [{name: a, policy: random}, {name: a, policy: random}]"), `arms[1].name is "a", as another is`},
		"unknown policy":     {with("arms: [{name: a, policy: fastest}]"), `arms[0].policy cannot be: unknown policy "fastest": it is one of random, round-robin, least-request`},
		"unknown strategy":   {weights("fastest"), `line 5: arms[0].weights is "fastest": it is one of equal-load, least-latency, published`},
		"its own line":       {weights("{strategy: fastest}"), `arms[0].weights.strategy is "fastest"`},
		"no strategy":        {weights("{interval: 5s}"), `arms[0].weights is "": it is one of`},
		"interval":           {weights("{strategy: equal-load, interval: 1ms}"), "arms[0].weights.interval is 1ms: it must be in 100ms..1h0m0s"},
		"noise":              {weights("{strategy: equal-load, noise: -1}"), "arms[0].weights.noise is -1"},
		"missing":            {weights("{strategy: equal-load, missing: 2}"), "arms[0].weights.missing is 2"},
		"evidence":           {weights("{strategy: equal-load, evidence: memory}"), `evidence is "memory": it is one of cpu, in-flight, cpu-only`},
		"outage":             {weights("{strategy: equal-load, outages: [{from: 5s, until: 1s}]}"), "arms[0].weights.outages[0].until is 1s"},
		"bounds":             {weights("{strategy: equal-load, utilization-limit: 70}"), "arms[0].weights cannot be: utilization limit is 70: it must be in 0.05..1"},
		"static noise":       {weights("{strategy: equal-load, static: true, noise: 0.1}"), "arms[0].weights.noise does not matter: static weights"},
		"static at no load":  {with("load: {steps: [{rate: 0}, {from: 1s, rate: 5}]}", "arms: [{name: a, policy: random, weights: {strategy: equal-load, static: true}}]"), "takes a load at the beginning"},
		"static of many":     {with("endpoints: [{demand: 1ms, count: 50001}]", "arms: [{name: a, policy: random, weights: {strategy: equal-load, static: true}}]"), "would be of 50001 endpoints, all such arms together: the most are 50000"},
		"published limits":   {weights("{strategy: published, min-share: 0.1}"), "arms[0].weights.min-share does not matter: the published rule has its own"},
		"published evidence": {weights("{strategy: published, evidence: cpu}"), "arms[0].weights.evidence does not matter: the published rule"},
		"control":            {with("control: {noise: 3}"), "control.noise is 3"},
		"control bounds":     {with("control: {max-step: 1}"), "control cannot be: maximum step is 1"},
		"control strategy":   {with("control: {strategy: equal-load}"), "control.strategy is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse("dir/test.yaml", strings.NewReader(test.text), files)
			if err == nil {
				t.Fatal("it passed")
			}
			got := err.Error()
			if !strings.Contains(got, test.want) || strings.Contains(got, "\n") || !strings.HasPrefix(got, "dir/test.yaml: ") {
				t.Errorf("got %q, want one line with %q", got, test.want)
			}
		})
	}
}

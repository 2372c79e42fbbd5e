package archtest

// layer is a row of the map: packages that do not see each other, and what they
// may see of taper.
type layer struct {
	packages []string
	// sees limits what may be imported from lower layers; nil allows all of them.
	// A name ending in /... means all below it, and parent the folder above.
	sees []string
	// engine marks pure code: see [engineMayNot].
	engine bool
}

const parent = ".."

// layers is the map of the tree, lowest first: a package imports from rows above
// its own, never from its own row or from one below. Tests may import anything.
var layers = []layer{
	{packages: []string{"api/v1alpha1", "internal/terminal", "internal/uplot", "internal/strictyaml"}, sees: []string{}},
	{packages: []string{"internal/command", "internal/webpage"}, sees: []string{"internal/terminal", "internal/uplot"}},
	{packages: []string{"internal/model"}, engine: true},
	{packages: []string{"internal/random"}, sees: []string{}, engine: true},
	{packages: []string{"internal/balance"}, engine: true},
	{packages: []string{"internal/balance/scenario"}},

	// From a service to what would become of it. Loops there run balance.Decide, so the
	// engine stands above it.
	{packages: []string{"internal/sim"}, sees: []string{"internal/balance", "internal/model", "internal/random"}, engine: true},
	{packages: []string{"internal/sim/policy"}, sees: []string{parent, "internal/random"}, engine: true},
	{packages: []string{"internal/sim/published"}, sees: []string{"internal/balance", "internal/model"}, engine: true},
	{
		packages: []string{"internal/sim/scenario"},
		sees:     []string{parent, "internal/sim/policy", "internal/sim/published", "internal/balance", "internal/model", "internal/strictyaml"},
	},

	// The edges: a parent says what it takes, its children do it.
	{packages: []string{"internal/source", "internal/apply", "internal/report"}},
	{packages: []string{"internal/sim/study"}, sees: []string{"internal/sim", "internal/sim/scenario", "internal/report", "internal/random"}},
	{
		packages: []string{"internal/sim/predict"},
		sees:     []string{"internal/sim", "internal/sim/policy", "internal/balance", "internal/model", "internal/random", "internal/report"},
	},
	{
		packages: []string{
			"internal/source/promql", "internal/source/envoystats", "internal/source/resourcemetrics",
			"internal/apply/eds", "internal/apply/serviceentry",
			"internal/report/text", "internal/report/html",
		},
		sees: []string{parent, "internal/model", "internal/terminal", "internal/webpage"},
	},

	{packages: []string{"internal/apply/serviceentry/readback"}, sees: []string{}},

	{packages: []string{"internal/standalone"}},

	// From packets to explanations. The stages between bytes and exchanges know the
	// vocabulary and, where two of them need the same, a leaf below them.
	{packages: []string{"internal/capture"}, sees: []string{}, engine: true},
	{
		packages: []string{
			"internal/capture/fields", "internal/capture/framing", "internal/capture/metadata", "internal/capture/sqltext",
		},
		sees: []string{parent}, engine: true,
	},
	{
		packages: []string{
			"internal/capture/frame", "internal/capture/flow", "internal/capture/dns", "internal/capture/http1",
			"internal/capture/mysql", "internal/capture/postgresql", "internal/capture/redis", "internal/capture/tls",
			"internal/capture/turns",
		},
		sees: captureStage, engine: true,
	},
	// hpack comes from outside, and files and interfaces are the edge.
	{
		packages: []string{"internal/capture/http2", "internal/capture/live", "internal/capture/pcapfile"},
		sees:     captureStage,
	},
	{packages: []string{"internal/capture/dissect"}, sees: []string{"internal/capture", "internal/capture/..."}},
	{packages: []string{"internal/capture/synth", "internal/capture/capturetest"}, sees: []string{"internal/capture", "internal/capture/..."}},
	{packages: []string{"internal/attribution"}, sees: []string{"internal/capture", "internal/random"}, engine: true},
	{packages: []string{"internal/trap"}, sees: []string{"internal/attribution", "internal/capture"}, engine: true},
	{packages: []string{"internal/trap/config"}, sees: []string{parent}},
	{packages: []string{"internal/explain"}},
	{packages: []string{"internal/explain/text", "internal/explain/page"}, sees: []string{parent, "internal/attribution", "internal/trap", "internal/report", "internal/terminal", "internal/webpage"}},

	// From trials to verdicts about networks.
	{packages: []string{"internal/verdict"}, sees: []string{"internal/random"}, engine: true},
	{packages: []string{"internal/probe"}, sees: []string{"internal/verdict"}},
	{packages: []string{"internal/probe/socket"}, sees: []string{parent}},
	{packages: []string{"internal/probe/stream", "internal/probe/datagram"}, sees: []string{parent, "internal/probe/socket"}},
	{packages: []string{"internal/probe/agent"}, sees: []string{"internal/probe", "internal/probe/..."}},
	{packages: []string{"internal/measure"}, sees: []string{"internal/probe", "internal/verdict"}},
	{packages: []string{"internal/probe/answer"}, sees: []string{parent, "internal/report", "internal/verdict"}},
	{packages: []string{"internal/probe/text", "internal/probe/page"}, sees: []string{parent, "internal/probe/answer", "internal/report", "internal/terminal", "internal/verdict", "internal/webpage"}},
	{packages: []string{"internal/probe/history"}, sees: []string{parent, "internal/verdict"}},
	{packages: []string{"internal/pageload"}, sees: []string{"internal/probe", "internal/probe/socket", "internal/verdict"}},
	{packages: []string{"internal/matrix"}, sees: []string{"internal/probe", "internal/probe/agent", "internal/verdict"}},
	{packages: []string{"internal/matrix/kubernetes"}, sees: []string{parent, "internal/probe", "internal/probe/agent"}},

	// The parts of the lab know nothing of the loop that the lab tries out.
	{packages: []string{"internal/lab/alarm", "internal/lab/process"}, sees: labPart},
	{packages: []string{"internal/lab/fleet", "internal/lab/store"}, sees: labPart},
	{packages: []string{"internal/lab/exporter", "internal/lab/load", "internal/lab/proxy"}, sees: labPart},
	{
		packages: []string{
			"internal/lab/fleet/emulated", "internal/lab/fleet/nginx",
			"internal/lab/store/embedded", "internal/lab/store/victoriametrics",
		},
		sees: []string{parent, "internal/lab/alarm", "internal/lab/process", "internal/model"},
	},
	{packages: []string{"internal/lab"}},
	{packages: []string{"internal/lab/netns"}, sees: []string{}},
	{packages: []string{"internal/lab/credentials"}},
	{
		packages: []string{"internal/lab/network"},
		sees: []string{
			"internal/lab/netns", "internal/lab/process", "internal/measure", "internal/pageload",
			"internal/probe", "internal/probe/agent", "internal/probe/answer", "internal/report", "internal/verdict",
		},
	},

	// The parts of the operator show and find out; what acts is above them.
	{packages: []string{"internal/operator/journal", "internal/operator/membership"}, sees: []string{"internal/model", "internal/balance"}},
	{packages: []string{"internal/operator/metrics", "internal/operator/page"}, sees: []string{"internal/operator/journal", "internal/balance", "internal/uplot"}},
	{packages: []string{"internal/operator"}},

	// The plugin sees the API and nothing of how it is carried out.
	{packages: []string{"internal/kubectl"}, sees: []string{"api/v1alpha1", "internal/balance", "internal/command", "internal/terminal"}},
	{packages: []string{"internal/cli"}},
	{packages: []string{"cmd/taper", "cmd/taper-operator", "cmd/kubectl-taper"}},

	{packages: []string{"test/cluster"}, sees: []string{"api/v1alpha1", "internal/lab/netns", "internal/lab/process", "internal/lab/proxy"}},
	{packages: []string{"test/bench/aim"}, sees: []string{}},
	{packages: []string{"test/bench/explain", "test/bench/net", "test/bench/operator", "test/bench/sim", "test/strategies", "test/chart", "test/e2e", "test/explain", "test/net"}},

	// What tests have in common stands below nothing: only tests import it.
	{packages: []string{"internal/probe/agent/agenttest"}, sees: []string{parent}},
	{packages: []string{"internal/archtest", "internal/browsertest", "internal/contracttest", "internal/goldentest"}, sees: []string{}},
}

var captureStage = []string{
	parent, "internal/capture/fields", "internal/capture/framing", "internal/capture/metadata", "internal/capture/sqltext",
}

var labPart = []string{"internal/lab/...", "internal/model"}

// engineMayNot lists what an engine must not import, each with all below it:
// what reads files, talks to others, logs, or gives a different answer the second
// time. From outside the standard library an engine imports nothing at all.
var engineMayNot = []string{
	"C", "crypto/rand", "database", "io/fs", "io/ioutil", "log", "math/rand", "net",
	"os", "plugin", "syscall", "testing", "unsafe",
}

// engineMay lists what is among these by its name alone: addresses are values.
var engineMay = []string{"net/netip"}

// clock lists the functions of package time that an engine must not call.
var clock = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

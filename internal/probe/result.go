package probe

import (
	"encoding/json"
	"io"
	"time"

	"taper.dev/taper/internal/verdict"
)

// Result is what `taper net test` found between two places. Its JSON form is a contract:
// names are only ever added.
type Result struct {
	Started time.Time `json:"started"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	// Name is what this path was called when several were measured; Path its kind.
	Name       string       `json:"name,omitempty"`
	Path       Path         `json:"path"`
	Tests      []TestResult `json:"tests"`
	Conditions Conditions   `json:"conditions"`
	// Others are measured in turn with the first, and compared with it.
	Others []Result `json:"others,omitempty"`
	// Incomplete says why the run ended before its time; empty for a whole one.
	Incomplete string `json:"incomplete,omitempty"`
}

// TestResult is what all trials of one test gave. What a test does not measure, or what
// was not measured, is missing.
type TestResult struct {
	Test      Test      `json:"name"`
	Direction Direction `json:"direction"`
	// The figure that counts is the median over trials: BytesPerS for bandwidth, MedianUS
	// for latency (of round trips that follow each other), RoundTripsPerMinute for
	// responsiveness. CI is where it lies, 95 times of 100, in the same unit; missing with
	// too few trials.
	BytesPerS float64     `json:"bytes_per_s,omitempty"`
	MedianUS  float64     `json:"median_us,omitempty"`
	CI        *[2]float64 `json:"ci,omitempty"`
	// RTT is over the samples of all trials, of messages that had a time to be sent at.
	RTT     *Latency `json:"rtt_us,omitempty"`
	Connect *Latency `json:"connect_us,omitempty"`
	// Idle is the latency without load beside a responsiveness test, Load that inside
	// the loaded connections.
	Idle *Latency `json:"idle_us,omitempty"`
	Load *Latency `json:"load_us,omitempty"`
	// RoundTripsPerMinute is the responsiveness.
	RoundTripsPerMinute float64 `json:"rpm,omitempty"`
	// LostShare is of the datagrams sent, 0 to 1.
	LostShare *float64      `json:"lost_share,omitempty"`
	PathMTU   *PathMTUFound `json:"path_mtu,omitempty"`

	// What the tools would say: qperf half the mean round trip, netperf the whole.
	QperfUS          *float64 `json:"qperf_us,omitempty"`
	NetperfUS        *float64 `json:"netperf_us,omitempty"`
	QperfBytesPerS   *float64 `json:"qperf_bytes_per_s,omitempty"`
	NetperfBytesPerS *float64 `json:"netperf_bytes_per_s,omitempty"`
	// Iperf3BytesPerS is the receiver's figure.
	Iperf3BytesPerS *float64 `json:"iperf3_bytes_per_s,omitempty"`

	MessageBytes int     `json:"message_bytes"`
	Duration     float64 `json:"duration_s"`
	Streams      int     `json:"streams"`
	Mode         Mode    `json:"mode,omitempty"`
	// Trials has the figure of each whole trial: what is compared, later too.
	Trials []float64 `json:"trials"`
	// Curve is the latency of all trials; Bins the bandwidth over time, bytes per
	// [BinWidth], of the trials one after another.
	Curve []Point `json:"curve,omitempty"`
	Bins  []int64 `json:"bins,omitempty"`
	// Limits says what a connection waited for, from the kernel.
	Limits *Limits `json:"limits,omitempty"`
	// Verdict compares with the first path; missing for the first.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Incomplete counts trials that ended early, and Why says why the first of them did.
	Incomplete int    `json:"incomplete_trials,omitempty"`
	Why        string `json:"why,omitempty"`
}

// Limits says why a flow is as slow as it is, as shares (0 to 1) of the time in which
// there was something to send.
type Limits struct {
	// Receiver: its window was full. Sender: the send buffer was. Network is the rest.
	Receiver float64 `json:"receiver"`
	Sender   float64 `json:"sender"`
	Network  float64 `json:"network"`
	// RetransmitShare is of the segments sent, 0 to 1.
	RetransmitShare float64 `json:"retransmit_share"`
	// Reason is this in words: the first to look at.
	Reason string `json:"reason"`
}

// Outcome is what a comparison says.
type Outcome string

// The outcomes: faster or slower than the first path, or no telling.
const (
	Better     Outcome = "better"
	Worse      Outcome = "worse"
	CannotTell Outcome = "cannot tell"
)

// Verdict is a comparison of paired trials.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	// Ratio is this path's figure over the first's, from those within rounds, CI its
	// interval; missing with too few rounds.
	Ratio float64     `json:"ratio,omitempty"`
	CI    *[2]float64 `json:"ci,omitempty"`
	// Floor is by how much (as a ratio above 1) the first path differs from itself, from
	// trials of it beside each other: what cannot be told from chance. 0 if unknown.
	Floor float64 `json:"noise_floor,omitempty"`
	// Within is set if the interval leaves no room for a difference worth telling.
	Within bool `json:"within,omitempty"`
	// Trials is how many pairs there are, Needed how many there should be to tell a
	// difference of this size; 0 if nobody can say.
	Trials int `json:"trials"`
	Needed int `json:"needed_trials,omitempty"`
}

// VerdictOf is a comparison as it is told.
func VerdictOf(c verdict.Comparison) Verdict {
	v := Verdict{Outcome: Outcome(c.Outcome), Trials: c.Rounds, Needed: c.Needed, Within: c.Within}
	if c.Rounds == 0 {
		return v // there are no two figures to compare
	}
	v.Ratio, v.Floor = c.Ratio.Value, c.Ratio.Floor
	if i := c.Ratio.Interval; i != nil {
		v.CI = &[2]float64{i.Low, i.High}
	}
	return v
}

// Conditions say under what the figures hold.
type Conditions struct {
	// MTU is the path's as found, else as the kernel believes; 0 if unknown.
	MTU int `json:"mtu,omitempty"`
	// NoiseFloorUS and NoiseFloorShare are by how much latency and bandwidth differ
	// between trials of the same path; missing if that was not measured.
	NoiseFloorUS    *float64 `json:"noise_floor_us,omitempty"`
	NoiseFloorShare *float64 `json:"noise_floor_share,omitempty"`
	// Shaped is set if the bandwidth fell from one plateau to another, as [Shaping] says;
	// without it none was seen within ShapingBytes.
	Shaped       bool     `json:"shaped"`
	Shaping      *Shaping `json:"shaping,omitempty"`
	ShapingBytes int64    `json:"shaping_seen_within_bytes,omitempty"`
	// ThrottledS is for how long CPU limits stopped either end; missing if unknown.
	ThrottledS *float64 `json:"cpu_throttled_s,omitempty"`
	NearCPUs   []int    `json:"near_cpus,omitempty"`
	FarCPUs    []int    `json:"far_cpus,omitempty"`
	Near       *Host    `json:"near,omitempty"`
	Far        *Host    `json:"far,omitempty"`
	// Notes are what else a reader must know, each a sentence.
	Notes []string `json:"notes,omitempty"`
}

// Shaping is a token bucket as it shows from outside. Bytes are those of Ethernet frames,
// which shapers count, as they follow from the payload and the size of segments.
type Shaping struct {
	Direction Direction `json:"direction"`
	// BucketBytes is what goes through above the sustained rate.
	BucketBytes float64 `json:"bucket_bytes"`
	// BurstBytesPerS and SustainedBytesPerS are the plateaus before and after.
	BurstBytesPerS     float64 `json:"burst_bytes_per_s"`
	SustainedBytesPerS float64 `json:"sustained_bytes_per_s"`
	// At is when the rate fell, after the first byte.
	AtS float64 `json:"at_s"`
}

// Matrix is what `taper net matrix` found between all agents.
type Matrix struct {
	Started time.Time `json:"started"`
	Agents  []Agent   `json:"agents"`
	// Cells are the pairs that were measured, one for each path between two agents.
	Cells    []Cell    `json:"cells"`
	Outliers []Outlier `json:"outliers"`
	// Native compares paths with the first of them that was measured (host), which is the
	// first in the list, with shares of 1.
	Native []Share `json:"native,omitempty"`
	// Currency is that of prices; empty without any.
	Currency string `json:"currency,omitempty"`
	// Notes are what else a reader must know, each a sentence.
	Notes []string `json:"notes,omitempty"`
	// Incomplete says why it ended early; empty for a whole matrix.
	Incomplete string `json:"incomplete,omitempty"`
}

// Agent is one row and column of a matrix.
type Agent struct {
	Name string `json:"name"`
	// Block is what it shares with others, such as a zone or an instance type.
	Block     string          `json:"block,omitempty"`
	Addresses map[Path]string `json:"addresses"`
	// PricePerHour is the machine's; 0 if no list has it.
	PricePerHour float64 `json:"price_per_hour,omitempty"`
	// PricePerGbit is the price per hour of a Gbit/s received, at the median.
	PricePerGbit float64 `json:"price_per_hour_and_gbit_per_s,omitempty"`
	// Problem is why the agent could not be measured; empty if it could.
	Problem string `json:"problem,omitempty"`
}

// Cell is one ordered pair on one path: From sends, To receives.
type Cell struct {
	From      string  `json:"from"`
	To        string  `json:"to"`
	Path      Path    `json:"path"`
	BytesPerS float64 `json:"bytes_per_s,omitempty"`
	// RTT is missing where latency was not sampled.
	RTT *Latency `json:"rtt_us,omitempty"`
	// Problem is why a figure is missing that should be there.
	Problem string `json:"problem,omitempty"`
}

// Outlier is a row, column or block that is unlike the rest.
type Outlier struct {
	// Kind is "sends", "receives", "pair", or "block".
	Kind string `json:"kind"`
	// Name is the agent's, the block's, or "A→B".
	Name string `json:"name"`
	Path Path   `json:"path"`
	// Metric is "bandwidth" or "latency", Share its figure over the median of all.
	Metric string  `json:"metric"`
	Share  float64 `json:"share_of_median"`
	// Sentence is this in words.
	Sentence string `json:"sentence"`
}

// Share is what a path gives of the native one, 1 being all: the median over pairs that
// were measured on both.
type Share struct {
	Path      Path    `json:"path"`
	Bandwidth float64 `json:"bandwidth,omitempty"`
	RTT       float64 `json:"rtt,omitempty"`
	Pairs     int     `json:"pairs"`
}

// PageLoad is what `taper net page` found.
type PageLoad struct {
	Started time.Time `json:"started"`
	// Targets are the ways to the page: the first through the balancer, if there is one.
	Targets []PageTarget `json:"targets"`
	// Bottleneck names the hop that is full.
	Bottleneck *Bottleneck `json:"bottleneck,omitempty"`
	// Notes are what else a reader must know, each a sentence.
	Notes      []string `json:"notes,omitempty"`
	Incomplete string   `json:"incomplete,omitempty"`
}

// PageTarget is one way to the page.
type PageTarget struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Connect is HOST:PORT that was asked for the page in the place of the URL's.
	Connect string `json:"connect,omitempty"`
	// Objects is how many things one user loads, PageBytes their size as sent.
	Objects   int        `json:"objects"`
	PageBytes int64      `json:"page_bytes"`
	Steps     []PageStep `json:"steps"`
	// Users is with how many throughput stopped growing, and BytesPerS where it did; 0
	// if it still grew at the end.
	Users     int     `json:"saturated_users,omitempty"`
	BytesPerS float64 `json:"saturated_bytes_per_s,omitempty"`
	Problem   string  `json:"problem,omitempty"`
}

// PageStep is one number of users.
type PageStep struct {
	Users     int     `json:"users"`
	BytesPerS float64 `json:"bytes_per_s"`
	PagesPerS float64 `json:"pages_per_s"`
	// Pages counts those that were there whole, Errors what failed, and Why says how the
	// first of them did.
	Pages  int64  `json:"pages"`
	Errors int64  `json:"errors"`
	Why    string `json:"why,omitempty"`
	// ClientBusy is the share, 0 to 1, of its CPUs or of its interface that the machine of
	// the users needed, whichever is more; missing if unknown.
	ClientBusy *float64 `json:"client_busy,omitempty"`
	// Page is how long a whole page took, milliseconds.
	P50 *float64 `json:"p50_ms,omitempty"`
	P90 *float64 `json:"p90_ms,omitempty"`
	P99 *float64 `json:"p99_ms,omitempty"`
	// Bins are bytes per [BinWidth], all together and by who served them.
	Bins   []int64            `json:"bins,omitempty"`
	Served map[string][]int64 `json:"served_bins,omitempty"`
}

// Bottleneck is the hop that is full, and why that is believed.
type Bottleneck struct {
	// Hop is "balancer", "backends", "client" or "none seen".
	Hop      string `json:"hop"`
	Sentence string `json:"sentence"`
}

// WriteJSON writes a result as the contract has it.
func WriteJSON[T Result | Matrix | PageLoad | Comparison](w io.Writer, result *T) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(result)
}

package explain

import (
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/trap"
)

// Explanation is what captures say about a service. Its JSON is a contract: fields are
// added, never renamed or removed.
type Explanation struct {
	Capture  Capture   `json:"capture"`
	Service  []Service `json:"service"`
	Requests []Request `json:"requests"`
	// RequestsOmitted counts the requests that are in Routes and not in Requests.
	RequestsOmitted uint64    `json:"requests_omitted,omitempty"`
	Routes          []Route   `json:"routes"`
	Findings        []Finding `json:"findings"`
	// Background is what the service called without a request, by cause and peer.
	Background []Background `json:"background,omitempty"`
	// Recognised says how requests were told from calls.
	Recognised string `json:"recognised,omitempty"`
	// Servers are those that answered most, when none of them could be told to be the
	// service.
	Servers []Server `json:"servers,omitempty"`
	// Refusals say which claims the capture cannot carry, and why.
	Refusals []string `json:"refusals,omitempty"`
}

// Capture says what was read, and what it lacks.
type Capture struct {
	Files            []File            `json:"files"`
	Packets          uint64            `json:"packets"`
	Bytes            uint64            `json:"bytes"`
	Start            time.Time         `json:"start"`
	DurationS        float64           `json:"duration_s"`
	TruncatedPackets uint64            `json:"truncated_packets"`
	DuplicatePackets uint64            `json:"duplicate_packets"`
	MalformedPackets uint64            `json:"malformed_packets"`
	UndecodedPackets uint64            `json:"undecoded_packets"`
	LostFragments    uint64            `json:"lost_fragments"`
	BackwardsPackets uint64            `json:"backwards_packets"`
	DroppedPackets   uint64            `json:"dropped_packets"` // by the kernel, while capturing
	Retransmitted    uint64            `json:"retransmitted_packets"`
	Reordered        uint64            `json:"reordered_packets"`
	MissingBytes     uint64            `json:"missing_bytes"`
	UnparsedBytes    uint64            `json:"unparsed_bytes"`
	Connections      uint64            `json:"connections"`
	MidConnections   uint64            `json:"mid_connections"`
	GivenUp          uint64            `json:"given_up_connections"`
	Exchanges        map[string]uint64 `json:"exchanges"`
	Unanswered       uint64            `json:"unanswered_exchanges"`
	Foreign          uint64            `json:"foreign_exchanges"` // between two other machines
	Damage           []string          `json:"damage,omitempty"`
}

// File is one file of a capture. Packets are counted through all files.
type File struct {
	Name        string `json:"name"`
	FirstPacket uint64 `json:"first_packet"`
	Packets     uint64 `json:"packets"`
}

// Service is an address that answered requests.
type Service struct {
	Address string   `json:"address"`
	Ports   []uint16 `json:"ports"`
}

// Server is an address that answered somebody.
type Server struct {
	Address   string `json:"address"`
	Protocol  string `json:"protocol"`
	Exchanges uint64 `json:"exchanges"`
}

// Request is one request.
type Request struct {
	ID         uint64                `json:"id"`
	Start      time.Time             `json:"start"`
	Client     string                `json:"client"`
	Server     string                `json:"server"`
	Protocol   string                `json:"protocol"`
	Method     string                `json:"method"`
	Target     string                `json:"target"`
	Route      string                `json:"route"`
	Status     int                   `json:"status"`
	Failed     bool                  `json:"failed,omitempty"`
	DurationMS float64               `json:"duration_ms"`
	Link       attribution.Certainty `json:"link"`
	Confidence float64               `json:"confidence"`
	// Packets are the first of the request and the last of the response.
	Packets [2]uint64 `json:"packets"`
	Parts   []Part    `json:"parts"`
	Calls   []Call    `json:"calls"`
	Slices  []Slice   `json:"slices"`
	// CallsOmitted counts calls that are in Parts and not in Calls.
	CallsOmitted int `json:"calls_omitted,omitempty"`
}

// IsOf says whether the request is one of the route's.
func (r *Request) IsOf(route *Route) bool {
	return r.Method == route.Method && r.Route == route.Route && r.Protocol == route.Protocol
}

// Part is the time of a request by cause and peer. Parts add up to the duration.
type Part struct {
	Cause attribution.Cause `json:"cause"`
	Peer  string            `json:"peer,omitempty"`
	MS    float64           `json:"ms"`
	Calls int               `json:"calls"`
}

// Call is something that a request caused. Stream numbers the connection, so that calls
// on one connection can be shown alike.
type Call struct {
	Cause       attribution.Cause     `json:"cause"`
	Peer        string                `json:"peer"`
	Protocol    string                `json:"protocol"`
	Op          string                `json:"op"`
	Target      string                `json:"target"`
	Status      int                   `json:"status"`
	Failed      bool                  `json:"failed,omitempty"`
	StartMS     float64               `json:"start_ms"` // after the request's start
	DurationMS  float64               `json:"duration_ms"`
	Link        attribution.Certainty `json:"link"`
	Probability float64               `json:"probability"`
	Stream      uint64                `json:"stream"`
	Packets     [2]uint64             `json:"packets"`
}

// Slice is a stretch of a request's time with one cause.
type Slice struct {
	Cause   attribution.Cause `json:"cause"`
	Peer    string            `json:"peer,omitempty"`
	StartMS float64           `json:"start_ms"`
	MS      float64           `json:"ms"`
	// Call is the index in Calls, -1 if none.
	Call    int       `json:"call"`
	Packets [2]uint64 `json:"packets"`
}

// Route is all requests of one kind.
type Route struct {
	Protocol string  `json:"protocol"`
	Method   string  `json:"method"`
	Route    string  `json:"route"`
	Count    uint64  `json:"count"`
	Failed   uint64  `json:"failed"`
	MeanMS   float64 `json:"mean_ms"`
	P50MS    float64 `json:"p50_ms"`
	P90MS    float64 `json:"p90_ms"`
	P99MS    float64 `json:"p99_ms"`
	MaxMS    float64 `json:"max_ms"`
	// Open is how many requests of the service were open at once, on average over the
	// time of this route's requests.
	Open float64 `json:"open"`
	// Links counts the requests by how sure their links are.
	Links map[attribution.Certainty]uint64 `json:"links"`
	Parts []RoutePart                      `json:"parts"`
	// Percentiles is the distribution of durations, for drawing.
	Percentiles []Percentile `json:"percentiles"`

	samples *samples
}

// Name is how people write the route: "GET /v1/{id}".
func (r *Route) Name() string { return attribution.Route{Method: r.Method, Pattern: r.Route}.String() }

// TotalMS is the time that all requests of the route took.
func (r *Route) TotalMS() float64 { return float64(r.Count) * r.MeanMS }

// Percentile is a point of a distribution: a share of Quantile took at most MS.
type Percentile struct {
	Quantile float64 `json:"quantile"`
	MS       float64 `json:"ms"`
}

// RoutePart is the mean time that a route's requests spent on a cause.
type RoutePart struct {
	Cause  attribution.Cause `json:"cause"`
	Peer   string            `json:"peer,omitempty"`
	MeanMS float64           `json:"mean_ms"`
	Share  float64           `json:"share"` // of the route's time, 0 to 1
	Calls  float64           `json:"calls"` // per request
	// Target is what was asked for, with "…" for what differs between the calls.
	Target string `json:"target,omitempty"`
	// Provider is whose metadata service it is.
	Provider capture.MetadataProvider `json:"provider,omitempty"`
}

// Background is calls that no request caused.
type Background struct {
	Cause attribution.Cause `json:"cause"`
	Peer  string            `json:"peer"`
	Op    string            `json:"op"`
	Count uint64            `json:"count"`
	// TotalMS is the sum of their durations.
	TotalMS float64 `json:"total_ms"`
}

// Finding is a trap that the capture shows.
type Finding struct {
	ID               string        `json:"id"`
	Severity         trap.Severity `json:"severity"`
	Title            string        `json:"title"`
	CostMSPerRequest float64       `json:"cost_ms_per_request"`
	Evidence         Evidence      `json:"evidence"`
	Fix              string        `json:"fix"`
	Reference        string        `json:"reference"`
	Confirmed        string        `json:"confirmed,omitempty"`
}

// Evidence are packets that show a finding.
type Evidence struct {
	Packets []uint64 `json:"packets"`
}

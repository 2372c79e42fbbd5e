package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/report"
)

const howToCapture = "Capture in the service's pod, while requests come in: tcpdump -leni any -w capture.pcap"

// nothingFound says why there are no requests, and what to do.
func (e *Explanation) nothingFound() Answer {
	c := &e.Capture
	encrypted := c.Exchanges[capture.TLS] > 0
	switch {
	case c.Packets == 0:
		return nothing("the capture has no packets", howToCapture)
	case len(e.Servers) > 0:
		var servers []string
		for _, s := range e.Servers {
			servers = append(servers, fmt.Sprintf("%s (%s %s)", s.Address, report.Count(s.Exchanges), s.Protocol))
		}
		return nothing("the capture does not tell which of its addresses is the service",
			"Servers that it saw: "+enumerate(servers)+".",
			"Name the one in question with --service "+e.Servers[0].Address+
				"; a capture by tcpdump -i any tells by itself.")
	case encrypted:
		return nothing("what the capture has is encrypted (TLS)", e.seen(),
			"Capture where requests are in clear: behind what ends TLS, such as between sidecar and service (tcpdump -leni any in the pod sees both).")
	}
	return nothing("nothing in the capture was answered by the service in a protocol that taper reads (HTTP, HTTP/2, gRPC)", e.seen(), howToCapture)
}

func nothing(why string, then ...string) Answer {
	return Answer{Headline: "No requests: " + why + ".", Rest: then}
}

// seen says what was in the capture instead of requests.
func (e *Explanation) seen() string {
	c := &e.Capture
	what := plural(c.Packets, "packet") + ", " + plural(c.Connections, "connection")
	names := slices.SortedFunc(maps.Keys(c.Exchanges), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.Exchanges[b], c.Exchanges[a]), cmp.Compare(a, b))
	})
	for _, name := range names {
		if n := c.Exchanges[name]; n > 0 {
			what += fmt.Sprintf(", %s %s", report.Count(n), name)
		}
	}
	return "It has " + what + "."
}

// Lacks says in one sentence what the capture does not have of what happened, "" if
// nothing is known to be missing.
func (c *Capture) Lacks() string {
	var lacks []string
	add := func(n uint64, one, many string) {
		switch {
		case n == 1:
			lacks = append(lacks, "1 "+one)
		case n > 1:
			lacks = append(lacks, report.Count(n)+" "+many)
		}
	}
	lacks = append(lacks, c.Damage...)
	add(c.DroppedPackets, "packet was dropped by the kernel", "packets were dropped by the kernel")
	add(c.TruncatedPackets, "packet was cut short (tcpdump -s 0 keeps all)", "packets were cut short (tcpdump -s 0 keeps all)")
	add(c.MissingBytes, "byte of the streams is missing", "bytes of the streams are missing")
	add(c.UnparsedBytes, "byte could not be understood", "bytes could not be understood")
	add(c.MalformedPackets, "packet is malformed", "packets are malformed")
	add(c.LostFragments, "fragment has no other half", "fragments have no other half")
	add(c.BackwardsPackets, "time the clock stepped back", "times the clock stepped back")
	add(c.MidConnections, "connection began before the capture", "connections began before the capture")
	add(c.GivenUp, "connection was given up to bound memory", "connections were given up to bound memory")
	add(c.Unanswered, "exchange has no answer in it", "exchanges have no answer in it")
	return strings.Join(lacks, ", ")
}

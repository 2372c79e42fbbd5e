package frame

import (
	"maps"
	"slices"
	"strings"

	"taper.dev/taper/internal/capture"
)

// Crafted are packets of all link types and headers for comparison with another decoder:
// those that the tests decode, and fragments.
func Crafted() []*capture.Packet {
	cases := decodedCases()
	// Where another decoder shows what the header says, we say what was on the wire.
	for _, name := range []string{"IPv4 in IPv6 address", "UDP length 0", "UDP length beyond IP's", "offloaded, IPv6 length 0"} {
		delete(cases, name)
	}
	var packets []*capture.Packet
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		packets = append(packets, cases[name].packet)
	}
	body := udpBytes(clientPort, 5353, strings.Repeat("x", 3000))
	for i, parts := range [][]part{
		{all(0, 1480, true), all(1480, 2960, true), all(2960, len(body), false)},
		{all(2960, len(body), false), all(0, 1480, true), all(1480, 2960, true)},
		{all(0, 1480, true), all(2960, len(body), false)},
	} {
		packets = append(packets, fragmented(false, uint16(100+i), body, parts...)...)
		packets = append(packets, fragmented(true, uint16(100+i), body, parts...)...)
	}
	return packets
}

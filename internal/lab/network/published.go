package network

// PublishedRow is one line of what the story's authors measured: a pair of machines, by
// their network and by an overlay. Latency is qperf's, half a round trip.
type PublishedRow struct {
	Overlay, Machines          string
	NativeBytesPerS, BytesPerS float64
	NativeLatencyUS, LatencyUS float64
}

// Published are those of the story's rows that have both.
var Published = []PublishedRow{
	{"Weave, user space", "Azure A1", 12.5e6, 9.11e6, 281, 483},
	{"Weave, user space", "Azure A2", 24.8e6, 10.3e6, 426, 557},
	{"Weave, user space", "Azure A3", 48e6, 12e6, 465, 483},
	{"Weave, user space", "Azure D1", 56.3e6, 17e6, 276, 456},
	{"Weave, user space", "Azure D2", 117e6, 24.6e6, 178, 446},
	{"Weave, user space", "DigitalOcean", 108e6, 9.7e6, 157, 299},
	{"Weave, fast datapath", "DigitalOcean", 108e6, 71.3e6, 157, 196},
	{"Flannel, VXLAN", "Azure A2", 24.8e6, 22.8e6, 426, 269},
	{"Flannel, VXLAN", "Azure D2", 117e6, 95.1e6, 178, 231},
}

package frame

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"taper.dev/taper/internal/capture"
)

const (
	ip4, ip6      = 0x0800, 0x86dd
	vlan, qinq    = 0x8100, 0x88a8
	clientPort    = 40000
	serverPort    = 80
	protoTCP      = byte(capture.TCP)
	protoUDP      = byte(capture.UDP)
	pushed        = capture.PSH | capture.ACK
	seq, ack      = 4_000_000_000, 5
	get           = "GET / HTTP/1.1\r\n\r\n"
	identity      = 0xbeef
	testInterface = 3
)

func timestamps() []byte { return []byte{1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 2, 0} }

// segment is a TCP segment with timestamps, whole is it in an IPv4 packet and whole6 in an
// IPv6 one; query and query6 are the same for a datagram.
func segment() []byte {
	return tcpBytes(clientPort, serverPort, seq, ack, pushed, timestamps(), get)
}
func datagramBytes() []byte { return udpBytes(clientPort, 53, "question") }
func whole() []byte         { return ipv4Bytes(capture.TCP, identity, false, 0, nil, segment()) }
func whole6() []byte        { return ipv6Bytes(protoTCP, segment()) }
func query() []byte         { return ipv4Bytes(capture.UDP, identity, false, 0, nil, datagramBytes()) }
func query6() []byte        { return ipv6Bytes(protoUDP, datagramBytes()) }

// tcpFrame and udpFrame are what the above are decoded to.
func tcpFrame(change ...func(*capture.Frame)) capture.Frame {
	f := capture.Frame{
		Number: 7, Time: 1e9, Interface: testInterface,
		Src: netip.AddrPortFrom(v4Client, clientPort), Dst: netip.AddrPortFrom(v4Server, serverPort),
		Transport: capture.TCP, Payload: []byte(get), Length: len(get), ID: identity,
		Seq: seq, Ack: ack, Flags: pushed, Window: 502,
		Options: capture.Options{Timestamps: true, Value: 0x100, Echo: 0x200},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func udpFrame(change ...func(*capture.Frame)) capture.Frame {
	f := capture.Frame{
		Number: 7, Time: 1e9, Interface: testInterface,
		Src: netip.AddrPortFrom(v4Client, clientPort), Dst: netip.AddrPortFrom(v4Server, 53),
		Transport: capture.UDP, Payload: []byte("question"), Length: 8, ID: identity,
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func v6(f *capture.Frame) {
	f.ID = 0
	f.Src, f.Dst = netip.AddrPortFrom(v6Client, f.Src.Port()), netip.AddrPortFrom(v6Server, f.Dst.Port())
}
func incoming(f *capture.Frame) { f.Direction = capture.Incoming }
func outgoing(f *capture.Frame) { f.Direction = capture.Outgoing }
func iface(i int) func(*capture.Frame) {
	return func(f *capture.Frame) { f.Interface = i }
}
func length(n int) func(*capture.Frame) { return func(f *capture.Frame) { f.Length = n } }
func payload(s string) func(*capture.Frame) {
	return func(f *capture.Frame) { f.Payload = []byte(s) }
}

// set changes two bytes of a packet.
func set(b []byte, at int, v uint16) []byte {
	big.PutUint16(b[at:], v)
	return b
}

// decodedCases are packets that are decoded, and to what.
func decodedCases() map[string]struct {
	packet *capture.Packet
	want   capture.Frame
} {
	type c = struct {
		packet *capture.Packet
		want   capture.Frame
	}
	large := strings.Repeat("x", 40_000)
	offloaded := ipv4Bytes(capture.TCP, identity, false, 0, nil, tcpBytes(clientPort, serverPort, seq, ack, pushed, timestamps(), large))
	cut := packet(capture.LinkEthernet, ethernetBytes(ip4, whole()))
	cut.Data = cut.Data[:len(cut.Data)-len(get)+3]
	headless := packet(capture.LinkEthernet, ethernetBytes(ip4, whole()))
	headless.Data = headless.Data[:14+20+20] // options are cut
	liar := packet(capture.LinkEthernet, ethernetBytes(ip4, whole()))
	liar.Data = liar.Data[:len(liar.Data)-5]
	liar.Length = len(liar.Data) // as tools write that rewrite cut captures
	named := packet(capture.LinkEthernet, ethernetBytes(ip4, query()))
	named.Process, named.Direction = capture.Process{PID: 5, TID: 6, Name: "dig"}, capture.Outgoing
	return map[string]c{
		"Ethernet, IPv4, TCP": {packet(capture.LinkEthernet, ethernetBytes(ip4, whole())), tcpFrame()},
		"Ethernet, IPv6, TCP": {packet(capture.LinkEthernet, ethernetBytes(ip6, whole6())), tcpFrame(v6)},
		"Ethernet, IPv4, UDP": {packet(capture.LinkEthernet, ethernetBytes(ip4, query())), udpFrame()},
		"Ethernet, IPv6, UDP": {packet(capture.LinkEthernet, ethernetBytes(ip6, query6())), udpFrame(v6)},
		"padding":             {packet(capture.LinkEthernet, append(ethernetBytes(ip4, query()), make([]byte, 10)...)), udpFrame()},
		"VLAN":                {packet(capture.LinkEthernet, ethernetBytes(vlan, tag(ip4, whole()))), tcpFrame()},
		"QinQ":                {packet(capture.LinkEthernet, ethernetBytes(qinq, tag(vlan, tag(ip6, query6())))), udpFrame(v6)},
		"SLL to us":           {packet(capture.LinkSLL, sllBytes(0, ip4, whole())), tcpFrame(incoming)},
		"SLL from us":         {packet(capture.LinkSLL, sllBytes(4, ip6, whole6())), tcpFrame(v6, outgoing)},
		"SLL of others":       {packet(capture.LinkSLL, sllBytes(3, ip4, whole())), tcpFrame()},
		"SLL, VLAN":           {packet(capture.LinkSLL, sllBytes(2, vlan, tag(ip4, whole()))), tcpFrame(incoming)},
		"SLL2 to us":          {packet(capture.LinkSLL2, sll2Bytes(0, ip4, 12, whole())), tcpFrame(incoming, iface(12))},
		"SLL2 broadcast":      {packet(capture.LinkSLL2, sll2Bytes(1, ip4, 12, query())), udpFrame(incoming, iface(12))},
		"SLL2 from us":        {packet(capture.LinkSLL2, sll2Bytes(4, ip6, 1, whole6())), tcpFrame(v6, outgoing, iface(1))},
		"BSD loopback":        {packet(capture.LinkNull, append([]byte{2, 0, 0, 0}, whole()...)), tcpFrame()},
		"BSD loopback, big":   {packet(capture.LinkNull, append([]byte{0, 0, 0, 30}, whole6()...)), tcpFrame(v6)},
		"OpenBSD loopback":    {packet(capture.LinkLoop, append([]byte{0, 0, 0, 24}, query6()...)), udpFrame(v6)},
		"raw IPv4":            {packet(capture.LinkRaw, whole()), tcpFrame()},
		"raw IPv6":            {packet(capture.LinkRaw, whole6()), tcpFrame(v6)},
		"raw, BSD":            {packet(capture.LinkRawBSD, query()), udpFrame()},
		"link type IPv4":      {packet(capture.LinkIPv4, query()), udpFrame()},
		"link type IPv6":      {packet(capture.LinkIPv6, query6()), udpFrame(v6)},

		"IPv4 options":         {packet(capture.LinkRaw, ipv4Bytes(capture.TCP, identity, false, 0, []byte{7, 7, 4, 0, 0, 0, 0}, segment())), tcpFrame()},
		"IPv4 don't fragment":  {packet(capture.LinkRaw, set(whole(), 6, 0x4000)), tcpFrame()},
		"IPv6 extensions":      {packet(capture.LinkRaw, ipv6Bytes(0, extension(60, 0, extension(43, 2, extension(60, 0, extension(protoTCP, 1, segment())))))), tcpFrame(v6)},
		"IPv6 authentication":  {packet(capture.LinkRaw, ipv6Bytes(51, append([]byte{protoUDP, 4}, append(make([]byte, 22), datagramBytes()...)...))), udpFrame(v6)},
		"IPv6 atomic fragment": {packet(capture.LinkRaw, ipv6Bytes(44, fragmentHeader(protoTCP, 1, false, 0, segment()))), tcpFrame(v6)},
		"IPv4 in IPv6 address": {
			packet(capture.LinkRaw, append(append(append(ipv6Bytes(protoUDP, datagramBytes())[:8], mapped(v4Client)...), mapped(v4Server)...), datagramBytes()...)),
			udpFrame(func(f *capture.Frame) { f.ID = 0 }),
		},

		"offloaded, longer than a link's": {packet(capture.LinkRaw, offloaded), tcpFrame(payload(large), length(40_000))},
		"offloaded, total length 0":       {packet(capture.LinkEthernet, ethernetBytes(ip4, set(slices.Clone(offloaded), 2, 0))), tcpFrame(payload(large), length(40_000))},
		"offloaded, IPv6 length 0":        {packet(capture.LinkEthernet, ethernetBytes(ip6, set(whole6(), 4, 0))), tcpFrame(v6)},
		"UDP length 0":                    {packet(capture.LinkRaw, set(query(), 24, 0)), udpFrame()},
		"UDP length beyond IP's":          {packet(capture.LinkRaw, set(query(), 24, 9000)), udpFrame()},
		"UDP shorter than IP":             {packet(capture.LinkRaw, set(query(), 24, 12)), udpFrame(payload("ques"), length(4))},
		"cut":                             {cut, tcpFrame(payload(get[:3]))},
		"cut in the TCP options":          {headless, tcpFrame(payload(""), func(f *capture.Frame) { f.Options = capture.Options{} })},
		"cut, and the file denies it":     {liar, tcpFrame(payload(get[:len(get)-5]), length(len(get)-5))},
		"process and direction":           {named, udpFrame(outgoing, func(f *capture.Frame) { f.Process = named.Process })},
		"no payload":                      {packet(capture.LinkRaw, ipv4Bytes(capture.TCP, identity, false, 0, nil, tcpBytes(clientPort, serverPort, seq, ack, pushed, timestamps(), ""))), tcpFrame(payload(""), length(0))},
	}
}

func mapped(a netip.Addr) []byte {
	b := a.As16()
	return b[:]
}

func compare(want, got capture.Frame) string {
	return cmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{}), cmpopts.EquateEmpty())
}

func TestDecode(t *testing.T) {
	t.Parallel()
	// One decoder for all, and one frame, which must not remember the frame before.
	d := New()
	f := capture.Frame{Process: capture.Process{PID: 99}, Direction: capture.Outgoing}
	truncated := uint64(0)
	for name, c := range decodedCases() {
		if v := d.Decode(c.packet, &f); v != Decoded {
			t.Errorf("%s: verdict %d", name, v)
			continue
		}
		if diff := compare(c.want, f); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if len(f.Payload) < f.Length {
			truncated++
		}
	}
	var s capture.Stats
	d.AddTo(&s)
	if want := (capture.Stats{Truncated: truncated}); truncated == 0 || !cmp.Equal(s, want) {
		t.Errorf("counted %+v, want %+v", s, want)
	}
}

// TestNotDecoded: what is no TCP or UDP, or broken, is counted as what it is.
func TestNotDecoded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		packet *capture.Packet
		want   Verdict
	}{
		"empty":                   {packet(capture.LinkEthernet, nil), Malformed},
		"ARP":                     {packet(capture.LinkEthernet, ethernetBytes(0x0806, make([]byte, 28))), Undecoded},
		"IEEE 802.3":              {packet(capture.LinkEthernet, ethernetBytes(38, make([]byte, 38))), Undecoded},
		"five tags":               {packet(capture.LinkEthernet, ethernetBytes(vlan, tag(vlan, tag(vlan, tag(vlan, tag(vlan, tag(ip4, whole()))))))), Undecoded},
		"a tag of 3 bytes":        {packet(capture.LinkEthernet, ethernetBytes(vlan, []byte{0, 1, 8})), Malformed},
		"netlink":                 {packet(capture.LinkSLL2, set(sll2Bytes(4, ip4, 1, whole()), 8, 824)), Undecoded},
		"netlink, SLL":            {packet(capture.LinkSLL, set(sllBytes(4, ip4, whole()), 2, 824)), Undecoded},
		"short SLL":               {packet(capture.LinkSLL, make([]byte, 15)), Malformed},
		"short SLL2":              {packet(capture.LinkSLL2, make([]byte, 19)), Malformed},
		"short loopback":          {packet(capture.LinkNull, make([]byte, 3)), Malformed},
		"loopback of AppleTalk":   {packet(capture.LinkNull, []byte{16, 0, 0, 0, 1}), Undecoded},
		"raw, no IP":              {packet(capture.LinkRaw, []byte{0x50, 1}), Undecoded},
		"raw, empty":              {packet(capture.LinkRaw, nil), Malformed},
		"802.11":                  {packet(105, whole()), Undecoded},
		"ICMP":                    {packet(capture.LinkRaw, ipv4Bytes(1, 1, false, 0, nil, make([]byte, 8))), Undecoded},
		"GRE":                     {packet(capture.LinkRaw, ipv4Bytes(47, 1, false, 0, nil, append([]byte{0, 0, 8, 0}, whole()...))), Undecoded},
		"no next header":          {packet(capture.LinkRaw, ipv6Bytes(59, nil)), Undecoded},
		"IPv4 header too short":   {packet(capture.LinkRaw, append([]byte{0x44}, whole()[1:]...)), Malformed},
		"IPv4 of version 6":       {packet(capture.LinkEthernet, ethernetBytes(ip4, whole6())), Malformed},
		"IPv6 of version 4":       {packet(capture.LinkEthernet, ethernetBytes(ip6, append(whole(), make([]byte, 40)...))), Malformed},
		"IPv4 total below header": {packet(capture.LinkRaw, set(whole(), 2, 19)), Malformed},
		"IPv4 of 10 bytes":        {packet(capture.LinkRaw, whole()[:10]), Malformed},
		"IPv4 cut":                {cutTo(packet(capture.LinkRaw, whole()), 10), Undecoded},
		"IPv4 options cut":        {cutTo(packet(capture.LinkRaw, ipv4Bytes(capture.TCP, 1, false, 0, make([]byte, 8), segment())), 24), Undecoded},
		"IPv6 cut":                {cutTo(packet(capture.LinkRaw, whole6()), 39), Undecoded},
		"TCP cut":                 {cutTo(packet(capture.LinkRaw, whole()), 39), Undecoded},
		"UDP cut":                 {cutTo(packet(capture.LinkRaw, query()), 27), Undecoded},
		"TCP header too short":    {packet(capture.LinkRaw, set(whole(), 20+12, 0x4010)), Malformed},
		"TCP header too long":     {packet(capture.LinkRaw, set(ipv4Bytes(capture.TCP, 1, false, 0, nil, tcpBytes(1, 2, 3, 4, 0, nil, "")), 20+12, 0x6010)), Malformed},
		"TCP of 19 bytes":         {packet(capture.LinkRaw, ipv4Bytes(capture.TCP, 1, false, 0, nil, make([]byte, 19))), Malformed},
		"UDP of 7 bytes":          {packet(capture.LinkRaw, ipv4Bytes(capture.UDP, 1, false, 0, nil, make([]byte, 7))), Malformed},
		"UDP length 7":            {packet(capture.LinkRaw, set(query(), 24, 7)), Malformed},
		"extension of 7 bytes":    {packet(capture.LinkRaw, ipv6Bytes(0, make([]byte, 7))), Malformed},
		"extension too long":      {packet(capture.LinkRaw, ipv6Bytes(0, append([]byte{protoTCP, 200}, make([]byte, 60)...))), Malformed},
		"extension cut":           {cutTo(packet(capture.LinkRaw, ipv6Bytes(0, extension(protoTCP, 3, segment()))), 56), Undecoded},
		"empty fragment":          {packet(capture.LinkRaw, ipv4Bytes(capture.UDP, 1, true, 0, nil, nil)), Malformed},
		"odd fragment":            {packet(capture.LinkRaw, ipv4Bytes(capture.UDP, 1, true, 0, nil, make([]byte, 9))), Malformed},
		"fragment beyond 64 KiB":  {packet(capture.LinkRaw, ipv4Bytes(capture.UDP, 1, false, 65528, nil, make([]byte, 9))), Malformed},
	} {
		d := New()
		var f capture.Frame
		if got := d.Decode(c.packet, &f); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
		var s capture.Stats
		d.AddTo(&s)
		if s.Undecoded != btoi(c.want == Undecoded) || s.Malformed != btoi(c.want == Malformed) {
			t.Errorf("%s: counted %+v", name, s)
		}
	}
}

func cutTo(p *capture.Packet, n int) *capture.Packet {
	p.Data = p.Data[:n]
	return p
}

func btoi(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func TestTCPOptions(t *testing.T) {
	t.Parallel()
	sack := func(edges ...uint32) []byte {
		b := []byte{5, byte(2 + 4*len(edges))}
		for _, e := range edges {
			b = big.AppendUint32(b, e)
		}
		return b
	}
	for name, c := range map[string]struct {
		flags   capture.Flags
		ack     uint32
		options []byte
		want    capture.Options
	}{
		"Linux's SYN": {
			capture.SYN, 0, []byte{2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7},
			capture.Options{MSS: 1460, WindowScale: 7, SACK: true, Timestamps: true, Value: 9},
		},
		"a SYN without":          {capture.SYN, 0, nil, capture.Options{WindowScale: -1}},
		"a scale beyond 14":      {capture.SYN, 0, []byte{3, 3, 255}, capture.Options{WindowScale: 14}},
		"MSS after the SYN":      {capture.ACK, 0, []byte{2, 4, 5, 180, 3, 3, 7, 4, 2}, capture.Options{}},
		"behind the end":         {capture.SYN, 0, []byte{0, 2, 4, 5, 180}, capture.Options{WindowScale: -1}},
		"a length of 0":          {capture.SYN, 0, []byte{2, 0, 2, 4, 5, 180}, capture.Options{WindowScale: -1}},
		"a length of 1":          {capture.SYN, 0, []byte{9, 1, 2, 4, 5, 180}, capture.Options{WindowScale: -1}},
		"longer than the header": {capture.SYN, 0, []byte{2, 4, 5, 180, 8, 40}, capture.Options{MSS: 1460, WindowScale: -1}},
		"of a wrong length":      {capture.SYN, 0, []byte{2, 3, 9, 3, 4, 1, 1, 8, 3, 1, 5, 3, 1}, capture.Options{WindowScale: -1}},
		"unknown ones":           {capture.ACK, 0, []byte{30, 3, 1, 254, 4, 1, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2}, capture.Options{Timestamps: true, Value: 1, Echo: 2}},
		"SACK":                   {capture.ACK, 1000, sack(2000, 3000), capture.Options{SACKs: true}},
		"three blocks":           {capture.ACK, 1000, sack(2000, 3000, 5000, 6000, 8000, 9000), capture.Options{SACKs: true}},
		"DSACK below the ACK":    {capture.ACK, 1000, sack(500, 700, 2000, 3000), capture.Options{SACKs: true, DSACK: true}},
		"DSACK up to the ACK":    {capture.ACK, 1000, sack(500, 1000), capture.Options{SACKs: true, DSACK: true}},
		"DSACK within the next":  {capture.ACK, 1000, sack(2500, 2600, 2000, 3000), capture.Options{SACKs: true, DSACK: true}},
		"DSACK around 2^32":      {capture.ACK, 100, sack(1<<32-200, 1<<32-100), capture.Options{SACKs: true, DSACK: true}},
		"SACK around 2^32":       {capture.ACK, 1<<32 - 100, sack(50, 100), capture.Options{SACKs: true}},
	} {
		f, v := decode(packet(capture.LinkRaw, ipv4Bytes(capture.TCP, 1, false, 0, nil, tcpBytes(1, 2, 3, c.ack, c.flags, c.options, ""))))
		if v != Decoded || f.Options != c.want {
			t.Errorf("%s: verdict %d, options %+v, want %+v", name, v, f.Options, c.want)
		}
	}
}

// TestFlags: those above ACK are not ours.
func TestFlags(t *testing.T) {
	t.Parallel()
	for flags := range 256 {
		f, v := decode(packet(capture.LinkRaw, ipv4Bytes(capture.TCP, 1, false, 0, nil, tcpBytes(1, 2, 3, 4, capture.Flags(flags), nil, ""))))
		if want := capture.Flags(flags & 0x1f); v != Decoded || f.Flags != want {
			t.Errorf("flags %#x: verdict %d, %#x", flags, v, f.Flags)
		}
	}
}

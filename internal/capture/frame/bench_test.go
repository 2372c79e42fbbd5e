package frame

import (
	"testing"

	"taper.dev/taper/internal/capture"
)

// BenchmarkDecode is the hot path: the packets that captures consist of.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name   string
		packet *capture.Packet
	}{
		{"SLL2,IPv4,TCP", packet(capture.LinkSLL2, sll2Bytes(0, ip4, 2, whole()))},
		{"Ethernet,IPv4,TCP", packet(capture.LinkEthernet, ethernetBytes(ip4, whole()))},
		{"Ethernet,IPv6,TCP", packet(capture.LinkEthernet, ethernetBytes(ip6, whole6()))},
		{"Ethernet,IPv4,UDP", packet(capture.LinkEthernet, ethernetBytes(ip4, query()))},
		{"VLAN,IPv4,SACK", packet(capture.LinkEthernet, ethernetBytes(vlan, tag(ip4, ipv4Bytes(capture.TCP, 1, false, 0, nil,
			tcpBytes(1, 2, 3, 4, capture.ACK, append(timestamps(), 1, 1, 5, 10, 0, 0, 0, 9, 0, 0, 0, 12), "")))))},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			d := New()
			var f capture.Frame
			for range b.N {
				if d.Decode(c.packet, &f) != Decoded {
					b.Fatal("not decoded")
				}
			}
		})
	}
	b.Run("fragments", func(b *testing.B) {
		b.ReportAllocs()
		d := New()
		var f capture.Frame
		body := udpBytes(1, 2, string(make([]byte, 4000)))
		parts := fragmented(false, 1, body, all(0, 1480, true), all(1480, 2960, true), all(2960, len(body), false))
		for i := range b.N {
			d.Decode(parts[i%3], &f)
		}
	})
}

// TestNoAllocations holds the hot path to that.
func TestNoAllocations(t *testing.T) {
	d := New()
	var f capture.Frame
	for name, c := range decodedCases() {
		if n := testing.AllocsPerRun(100, func() { d.Decode(c.packet, &f) }); n != 0 {
			t.Errorf("%s: %v allocations per packet", name, n)
		}
	}
}

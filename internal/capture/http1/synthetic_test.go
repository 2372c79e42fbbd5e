package http1

import (
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"taper.dev/taper/internal/capture"
	ct "taper.dev/taper/internal/capture/capturetest"
)

// TestSyntheticTshark makes up conversations, writes them as packets of any size at any
// time, and compares with tshark when each of them was answered.
func TestSyntheticTshark(t *testing.T) {
	t.Parallel()
	const connections, seed = 20, 1
	file := filepath.Join(t.TempDir(), "synthetic.pcap")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := &wire{pcap: pcapgo.NewWriterNanos(f), random: rand.New(rand.NewSource(seed)), now: time.Unix(1_800_000_000, 0)}
	if err := w.pcap.WriteFileHeader(65536, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	byAnswer := make(map[uint64]*capture.Exchange)
	p := Protocol()
	for i := range connections {
		c := &conversation{random: w.random}
		for j := range 20 {
			c.add(j, 1)
		}
		chunks := w.connection(t, uint16(40000+i), c.said)
		r := ct.PlayChunks(p, withEnds(capture.Conn{}), chunks)
		if len(r.Exchanges) != 20 || r.Lost != 0 {
			t.Fatalf("connection %d: %d exchanges, %d bytes lost", i, len(r.Exchanges), r.Lost)
		}
		for _, x := range r.Exchanges {
			byAnswer[x.Response.Last.Packet] = x
		}
	}
	rows := ct.Tshark{File: file, Filter: "http.response"}.Fields(t, "frame.number", "http.time", "http.request_in")
	if len(rows) != 20*connections {
		t.Errorf("tshark finds %d responses; want %d", len(rows), 20*connections)
	}
	for _, row := range rows {
		number, _ := strconv.ParseUint(row[0], 10, 64)
		if x := byAnswer[number]; x == nil {
			t.Errorf("no exchange ends with packet %d", number)
		} else {
			compareTime(t, x, row[1], row[2])
		}
	}
}

// wire writes packets of TCP connections.
type wire struct {
	pcap   *pcapgo.Writer
	random *rand.Rand
	now    time.Time
	number uint64
}

// connection writes a connection that says what is said, in pieces, and returns those.
func (w *wire) connection(t *testing.T, port uint16, said []ct.Said) []capture.Chunk {
	seq := [2]uint32{w.random.Uint32(), w.random.Uint32()}
	send := func(side capture.Side, data string, flags layers.TCP) capture.Mark {
		flags.SrcPort, flags.DstPort = layers.TCPPort(port), 80
		ip := layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
		if side == capture.Server {
			flags.SrcPort, flags.DstPort = flags.DstPort, flags.SrcPort
			ip.SrcIP, ip.DstIP = ip.DstIP, ip.SrcIP
		}
		flags.Seq, flags.Ack, flags.Window = seq[side], seq[side.Other()], 65535
		mark := w.packet(t, &ip, &flags, data)
		if seq[side] += uint32(len(data)); flags.SYN || flags.FIN {
			seq[side]++
		}
		return mark
	}
	send(capture.Client, "", layers.TCP{SYN: true})
	send(capture.Server, "", layers.TCP{SYN: true, ACK: true})
	send(capture.Client, "", layers.TCP{ACK: true})
	var chunks []capture.Chunk
	for _, s := range said {
		for most := 1 + w.random.Intn(1400); len(s.Data) > 0; {
			n := min(1+w.random.Intn(most), len(s.Data))
			if n < len(s.Data) && s.Data[n] == '\n' {
				n++ // tshark calls some messages malformed that are cut between CR and LF
			}
			mark := send(s.Side, s.Data[:n], layers.TCP{ACK: true, PSH: n == len(s.Data)})
			chunks = append(chunks, capture.Chunk{Side: s.Side, Mark: mark, Data: []byte(s.Data[:n])})
			s.Data = s.Data[n:]
		}
	}
	send(capture.Client, "", layers.TCP{ACK: true, FIN: true})
	send(capture.Server, "", layers.TCP{ACK: true, FIN: true})
	return chunks
}

// packet writes one packet, up to 2 ms after the one before.
func (w *wire) packet(t *testing.T, ip *layers.IPv4, tcp *layers.TCP, data string) capture.Mark {
	t.Helper()
	if err := tcp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	ethernet := layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6), EthernetType: layers.EthernetTypeIPv4}
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, &ethernet, ip, tcp, gopacket.Payload(data))
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Duration(w.random.Intn(2_000_000)))
	w.number++
	info := gopacket.CaptureInfo{Timestamp: w.now, CaptureLength: len(b.Bytes()), Length: len(b.Bytes())}
	if err := w.pcap.WritePacket(info, b.Bytes()); err != nil {
		t.Fatal(err)
	}
	return capture.Mark{Time: capture.At(w.now), Packet: w.number}
}

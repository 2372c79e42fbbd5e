package http1

import (
	"strings"
	"testing"

	"taper.dev/taper/internal/capture"
)

// Messages of usual size, with fields that are passed over.
const (
	usualRequest = "GET /api/v1/items/4711?page=2&sort=name HTTP/1.1\r\nHost: shop.example.com\r\n" +
		"User-Agent: Apache-HttpClient/4.5.13 (Java/11.0.20)\r\nAccept: application/json, */*\r\nAccept-Encoding: gzip,deflate\r\n" +
		"Cookie: session=0123456789abcdef0123456789abcdef\r\nx-request-id: 4f1c2b7e-9a55-4e0c-8d1a-6f0b7f2c9d11\r\nConnection: keep-alive\r\n\r\n"
	usualResponse = "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 14:00:00 GMT\r\nContent-Type: application/json\r\nServer: envoy\r\n" +
		"x-envoy-upstream-service-time: 12\r\nContent-Length: 120\r\n\r\n"
)

// BenchmarkExchange reads one request and its response, one packet each.
func BenchmarkExchange(b *testing.B) {
	request := []byte(usualRequest)
	response := []byte(usualResponse + strings.Repeat("x", 120))
	told := 0
	p := Protocol().New(withEnds(capture.Conn{}), func(*capture.Exchange) { told++ })
	b.SetBytes(int64(len(request) + len(response)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		mark := capture.Mark{Time: capture.Time(n), Packet: uint64(n)}
		p.Chunk(capture.Chunk{Side: capture.Client, Mark: mark, Data: request})
		p.Chunk(capture.Chunk{Side: capture.Server, Mark: mark, Data: response})
	}
	if told != n || p.Lost() != 0 {
		b.Fatalf("%d exchanges of %d, %d bytes lost", told, n, p.Lost())
	}
}

// BenchmarkBody reads a response of 1 MiB, in packets of 1,448 bytes, with a length and
// in chunks of 8 KiB.
func BenchmarkBody(b *testing.B) {
	const size = 1 << 20
	chunk := "2000\r\n" + strings.Repeat("x", 8192) + "\r\n"
	for name, response := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n" + strings.Repeat("x", size),
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, size/8192) + "0\r\n\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			told := 0
			p := Protocol().New(withEnds(capture.Conn{}), func(*capture.Exchange) { told++ })
			data := []byte(response)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				p.Chunk(capture.Chunk{Side: capture.Client, Mark: capture.Mark{Packet: 1}, Data: []byte(usualRequest)})
				for rest := data; len(rest) > 0; rest = rest[min(1448, len(rest)):] {
					p.Chunk(capture.Chunk{Side: capture.Server, Mark: capture.Mark{Packet: 2}, Data: rest[:min(1448, len(rest))]})
				}
			}
			if told != n {
				b.Fatalf("%d exchanges of %d", told, n)
			}
		})
	}
}

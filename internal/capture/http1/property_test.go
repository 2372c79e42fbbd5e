package http1

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	ct "taper.dev/taper/internal/capture/capturetest"
)

// conversation is one that was made up, and what it says.
type conversation struct {
	random *rand.Rand
	// odd allows what tshark times otherwise: bodies that look like messages, responses
	// with a 103 before them, whose time it takes, and trailers, whose end it does not
	// wait for if it comes in pieces.
	odd   bool
	said  []ct.Said
	want  []string
	bytes int
}

// body makes up a body and the fields that frame it.
func (c *conversation) body() string {
	var text []byte
	pieces := []string{"abc", "defghi\n"}
	if c.odd {
		pieces = []string{"GET / HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", "\r\n", "0\r\n\r\n", "abc\n"}
	}
	for range c.random.Intn(50) {
		text = append(text, pieces[c.random.Intn(len(pieces))]...)
	}
	if c.random.Intn(2) == 0 {
		return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text)
	}
	var b strings.Builder
	b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	for len(text) > 0 {
		n := 1 + c.random.Intn(len(text))
		fmt.Fprintf(&b, "%X\r\n%s\r\n", n, text[:n])
		text = text[n:]
	}
	b.WriteString("0\r\n")
	if c.odd && c.random.Intn(2) == 0 {
		b.WriteString("Trailer: GET / HTTP/1.1\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

func (c *conversation) request(i int) (text, summary string) {
	switch path := fmt.Sprintf("/r/%d", i); c.random.Intn(3) {
	case 0:
		return "GET " + path + "?q=1 HTTP/1.1\r\nHost: h\r\n\r\n", "GET " + path
	case 1:
		return "HEAD " + path + " HTTP/1.1\r\n\r\n", "HEAD " + path
	default:
		return "POST " + path + " HTTP/1.1\r\n" + c.body(), "POST " + path
	}
}

func (c *conversation) response(head bool) (text, summary string) {
	interim := ""
	if c.odd {
		interim = strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", c.random.Intn(2))
	}
	c.bytes -= len(interim)
	if status := []int{204, 304}[c.random.Intn(2)]; c.random.Intn(4) == 0 {
		return fmt.Sprintf("%sHTTP/1.1 %d No body\r\nContent-Length: 7\r\n\r\n", interim, status), fmt.Sprint(status)
	}
	status := []int{200, 404, 503}[c.random.Intn(3)]
	body := c.body()
	if head {
		body = "Content-Length: 4711\r\n\r\n"
	}
	return fmt.Sprintf("%sHTTP/1.1 %d Some\r\n%s", interim, status, body), fmt.Sprint(status)
}

// add adds requests that are sent at once, and their responses.
func (c *conversation) add(first, n int) {
	var requests, responses strings.Builder
	for i := first; i < first+n; i++ {
		request, asked := c.request(i)
		response, answered := c.response(strings.HasPrefix(request, "HEAD"))
		requests.WriteString(request)
		responses.WriteString(response)
		packets := len(c.said) + 1
		c.want = append(c.want, fmt.Sprintf("%s %s %d-%d %d-%d", asked, answered, packets, packets, packets+1, packets+1))
	}
	c.bytes += requests.Len() + responses.Len()
	c.said = append(c.said, ct.C(requests.String()), ct.S(responses.String()))
}

// TestMadeUp plays conversations that were made up, cut in any way, and wants back what
// was put in, every byte accounted for.
func TestMadeUp(t *testing.T) {
	t.Parallel()
	p := Protocol()
	for seed := range int64(200) {
		c := &conversation{random: rand.New(rand.NewSource(seed)), odd: true}
		for i := 0; i < 20; {
			n := 1 + c.random.Intn(3)
			c.add(i, n)
			i += n
		}
		r := ct.PlayChunks(p, withEnds(capture.Conn{}), ct.Segments(ct.Chunks(c.said), c.random))
		var got []string
		var bytes int64
		for _, x := range r.Exchanges {
			got = append(got, fmt.Sprintf("%s %s %d %d-%d %d-%d", x.Op, x.Target, x.Status,
				x.Request.First.Packet, x.Request.Last.Packet, x.Response.First.Packet, x.Response.Last.Packet))
			bytes += x.Request.Bytes + x.Response.Bytes
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		if bytes != int64(c.bytes) || r.Lost != 0 {
			t.Fatalf("seed %d: messages have %d bytes, %d are lost; want %d", seed, bytes, r.Lost, c.bytes)
		}
	}
}

package tls

import (
	"encoding/binary"
	"strings"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/framing"
)

// Types of handshake messages.
const (
	clientHello = 1
	serverHello = 2
)

// Extensions.
const (
	serverName        = 0
	applicationLayer  = 16
	preSharedKey      = 41
	supportedVersions = 43
)

// maxHello bounds a hello, in bytes; what is beyond is not looked at.
const maxHello = 1 << 14

// retry is the random of a ServerHello that is a HelloRetryRequest (RFC 8446, 4.1.3).
const retry = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// hello collects a side's handshake messages from its records, as far as they are hellos.
type hello struct {
	text []byte
	// skip is how much of another message follows.
	skip int
}

// messageHeader is the length of a handshake message's header: its type and its length.
const messageHeader = 4

// hello takes a handshake record in the clear, and what hellos it completes.
func (p *parser) hello(from capture.Side, m *framing.Message) {
	if p.shake == nil {
		if from == capture.Server || len(m.Body) == 0 || m.Body[0] != clientHello {
			return
		}
		p.begin()
	}
	h := &p.sides[from].hello
	for body := m.Body; len(body) > 0; {
		if n := min(h.skip, len(body)); n > 0 {
			h.skip -= n
			body = body[n:]
			continue
		}
		var whole bool
		if body, whole = h.add(body); whole {
			p.read(from, h)
		}
	}
	if len(m.Body) < int(m.Size) {
		// The rest is not in the capture: what is there must do.
		p.read(from, h)
		*h = hello{}
	}
}

// add adds to the message that has begun. It returns what belongs to the next one, and
// whether it is a hello and complete.
func (h *hello) add(body []byte) (rest []byte, whole bool) {
	n := min(max(messageHeader-len(h.text), 0), len(body))
	h.text = append(h.text, body[:n]...)
	body = body[n:]
	if len(h.text) < messageHeader {
		return body, false
	}
	kind, size := h.text[0], int(h.text[1])<<16|int(h.text[2])<<8|int(h.text[3])
	if kind != clientHello && kind != serverHello || size > maxHello {
		h.text, h.skip = h.text[:0], size
		return body, false
	}
	n = min(messageHeader+size-len(h.text), len(body))
	h.text = append(h.text, body[:n]...)
	return body[n:], len(h.text) == messageHeader+size
}

// read reads the hello that was collected.
func (p *parser) read(from capture.Side, h *hello) {
	if len(h.text) >= messageHeader {
		switch text := h.text[messageHeader:]; {
		case h.text[0] == clientHello && from == capture.Client:
			p.readClient(text)
		case h.text[0] == serverHello && from == capture.Server:
			p.readServer(text)
		}
	}
	h.text = nil
}

func (p *parser) readClient(text []byte) {
	r := reader(text)
	r.skip(2 + 32)
	r.block(1) // session
	r.block(2) // ciphers
	r.block(1) // compressions
	r.extensions(func(kind uint16, body reader) {
		if kind == serverName {
			p.sni = hostName(body)
		}
	})
	p.shake.exchange.Authority = p.sni
}

// hostName is the first name in a server_name extension, "" if it is none.
func hostName(r reader) string {
	r = r.block(2)
	if kind := r.uint(1); kind != 0 {
		return ""
	}
	return strings.ToLower(r.name(2))
}

func (p *parser) readServer(text []byte) {
	x := p.shake
	d := &x.detail
	r := reader(text)
	version := uint16(r.uint(2))
	random := r.take(32)
	r.block(1) // session
	r.skip(2 + 1)
	d.ALPN, d.Resumed = "", false
	r.extensions(func(kind uint16, body reader) {
		switch kind {
		case supportedVersions:
			version = uint16(body.uint(2))
		case preSharedKey:
			d.Resumed = true
		case applicationLayer:
			list := body.block(2)
			d.ALPN = list.name(1)
		}
	})
	d.Version = version
	if string(random) == retry {
		d.Retried = true
		return
	}
	x.answered = true
}

// reader takes fields from the beginning of bytes. Where there are too few it gives what
// there is, and zeros.
type reader []byte

func (r *reader) take(n int) []byte {
	n = min(n, len(*r))
	taken := (*r)[:n]
	*r = (*r)[n:]
	return taken
}

func (r *reader) skip(n int) { r.take(n) }

// uint is a number of 1 or 2 bytes.
func (r *reader) uint(bytes int) int {
	b := r.take(bytes)
	if len(b) < bytes {
		return 0
	}
	if bytes == 1 {
		return int(b[0])
	}
	return int(binary.BigEndian.Uint16(b))
}

// block is bytes behind a length of so many bytes.
func (r *reader) block(length int) reader { return r.take(r.uint(length)) }

// name is a text behind a length of so many bytes; "" if it is not all there, or would
// not print.
func (r *reader) name(length int) string {
	n := r.uint(length)
	if n > len(*r) || n > capture.MaxText {
		return ""
	}
	name := r.take(n)
	for _, c := range name {
		if c <= ' ' || c >= 0x7f {
			return ""
		}
	}
	return string(name)
}

// extensions calls f for each extension.
func (r *reader) extensions(f func(kind uint16, body reader)) {
	for list := r.block(2); len(list) >= 4; {
		kind := uint16(list.uint(2))
		f(kind, list.block(2))
	}
}

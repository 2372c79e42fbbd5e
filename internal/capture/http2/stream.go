package http2

import (
	"strconv"
	"strings"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/fields"
)

// stream is an exchange in the making.
type stream struct {
	*capture.Exchange
	// asked says that the client's headers were seen, answered that the server's end was:
	// a response may be captured a moment before its request.
	asked, answered bool
	grpc            bool
	// status is gRPC's, -1 as long as it is not known.
	status int
}

// fieldBlock is what is kept of one header block.
type fieldBlock struct {
	method, path, authority string
	status                  int // 0: there is none
	grpcStatus              int // -1: there is none
	grpc                    bool
	// partial says that fields may be missing.
	partial bool
	keep    []keptField
}

type keptField struct {
	name  fields.Name
	value string
}

// take is told each field of a block, in order.
func (p *parser) take(name, value string) {
	b := &p.block
	switch name {
	case ":method":
		b.method = value
	case ":path":
		b.path = value
	case ":authority":
		b.authority = value
	case ":status":
		b.status, _ = strconv.Atoi(value)
	default:
		switch known := fields.Of([]byte(name)); known {
		case fields.Other:
		case fields.GRPCStatus:
			if status, err := strconv.ParseUint(value, 10, 16); err == nil {
				b.grpcStatus = int(status)
			}
		case fields.ContentType:
			b.grpc = isGRPC(value)
		default:
			b.keep = append(b.keep, keptField{known, value})
		}
	}
}

// isGRPC says whether a content type is gRPC's. That of gRPC-Web is not: its status is in
// the body.
func isGRPC(contentType string) bool {
	format, found := strings.CutPrefix(contentType, "application/grpc")
	return found && (format == "" || format[0] == '+' || format[0] == ';')
}

// stream opens one.
func (p *parser) stream(id uint32) *stream {
	if len(p.streams) >= maxStreams {
		p.giveUpOldest()
	}
	x := &struct {
		capture.Exchange
		detail capture.HTTPDetail
	}{}
	x.HTTP, x.Stream = &x.detail, id
	st := &stream{Exchange: &x.Exchange, status: -1}
	p.add(id, st)
	return st
}

func (p *parser) add(id uint32, st *stream) {
	p.streams[id] = st
	p.order = append(p.order, id)
	if len(p.order) < 2*maxStreams {
		return
	}
	open := p.order[:0]
	for _, id := range p.order {
		if p.streams[id] != nil {
			open = append(open, id)
		}
	}
	p.order = open
}

func (p *parser) giveUpOldest() {
	for i, id := range p.order {
		if st := p.streams[id]; st != nil {
			p.order = p.order[i+1:]
			p.tell(id, st)
			return
		}
	}
}

// adopt takes the question that HTTP/1.1 left: it is stream 1 (RFC 7540, section 3.2).
func (p *parser) adopt(x *capture.Exchange) {
	x.Stream = 1
	p.highest = 1
	p.add(1, &stream{Exchange: x, asked: true, status: -1})
}

// opened takes a header block of a stream: a request, a response, or trailers.
func (p *parser) opened(from capture.Side, h header, span capture.Span) {
	st := p.streams[h.stream]
	if from == capture.Client {
		p.request(st, h, span)
	} else {
		p.response(st, h, span)
	}
}

func (p *parser) request(st *stream, h header, span capture.Span) {
	switch {
	case h.stream%2 == 0:
		return
	case st != nil && st.asked:
		// Trailers.
		st.Request.Last = span.Last
		st.Request.Bytes += span.Bytes
		return
	case st == nil && h.stream <= p.highest, p.block.method == "" && !p.block.partial:
		// Trailers of a stream that was answered already, or began before the capture.
		return
	case st == nil:
		st = p.stream(h.stream)
	}
	p.highest = max(p.highest, h.stream)
	st.asked = true
	st.Request = span
	p.keepRequest(st)
	if st.answered {
		p.tell(h.stream, st)
	}
}

// keepRequest keeps what is kept of the fields of a request.
func (p *parser) keepRequest(st *stream) {
	b := &p.block
	for _, field := range b.keep {
		p.cache.Keep(st.Exchange, field.name, []byte(field.value))
	}
	if b.authority != "" {
		p.cache.Keep(st.Exchange, fields.Host, []byte(b.authority))
	}
	var query []byte
	st.Target, query = p.cache.Target([]byte(b.path))
	st.HTTP.Action = p.cache.Text(fields.Action(query, false))
	st.grpc = st.grpc || b.grpc
	st.Op = p.cache.Text([]byte(b.method))
}

func (p *parser) response(st *stream, h header, span capture.Span) {
	if st == nil {
		// A response may be captured a moment before its request, but not to one that was
		// made before the capture.
		if h.stream <= p.highest || h.stream%2 == 0 || p.conn.Mid && p.highest == 0 {
			return
		}
		st = p.stream(h.stream)
	}
	b := &p.block
	switch {
	case b.status >= 100 && b.status < 200:
		if !st.HTTP.Interim.Seen() {
			st.HTTP.Interim = span.Last
		}
		return
	case !st.Response.First.Seen():
		st.Response.First = span.First
		st.HTTP.HeadersEnd = span.Last
		st.Status = b.status
	}
	st.Response.Bytes += span.Bytes
	if b.grpcStatus >= 0 {
		st.status = b.grpcStatus
	}
	st.grpc = st.grpc || b.grpc || b.grpcStatus >= 0
	if h.flags&flagEndStream != 0 {
		p.finish(h.stream, st, span.Last)
	}
}

package http2

import (
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/framing"
)

// data takes a piece of a body.
func (p *parser) data(from capture.Side, h header, m *framing.Message) {
	st := p.streams[h.stream]
	if st == nil {
		return
	}
	span := m.Span()
	if from == capture.Client {
		st.Request.Last = span.Last
		st.Request.Bytes += span.Bytes
		return
	}
	if !st.Response.First.Seen() {
		// Its headers are missing.
		st.Response.First = span.First
	}
	st.Response.Bytes += span.Bytes
	if h.flags&flagEndStream != 0 {
		p.finish(h.stream, st, span.Last)
	}
}

// finish ends a response.
func (p *parser) finish(id uint32, st *stream, last capture.Mark) {
	st.Response.Last = last
	st.answered = true
	if st.grpc && st.status < 0 && st.Status != 0 && st.Status != 200 {
		st.status = fromHTTP(st.Status)
	}
	st.Failed = st.Failed || st.grpc && st.status > 0 || !st.grpc && st.Status >= 500
	if st.asked {
		p.tell(id, st)
	}
}

// reset ends a stream before its time. By the server it is an answer, of failure; by the
// client it means that none is awaited any more, and is the last that the client says.
func (p *parser) reset(from capture.Side, id uint32, m *framing.Message, code uint32) {
	st := p.streams[id]
	switch {
	case st == nil:
	case from == capture.Client:
		st.Request.Last = m.Last
		p.tell(id, st)
	default:
		if !st.Response.First.Seen() {
			st.Response.First = m.First
		}
		st.Response.Bytes += m.Span().Bytes
		if st.grpc && st.status < 0 {
			st.status = fromReset(code)
		}
		st.Failed = true
		p.finish(id, st, m.Last)
	}
}

// goAway tells the requests that the server will not look at.
func (p *parser) goAway(last uint32) {
	if last >= p.highest {
		return
	}
	for _, id := range p.order {
		if st := p.streams[id]; st != nil && id > last {
			p.tell(id, st)
		}
	}
}

// tell hands out a stream's exchange, as complete as it is.
func (p *parser) tell(id uint32, st *stream) {
	delete(p.streams, id)
	if !st.asked {
		return
	}
	if st.grpc {
		st.Protocol, st.Op, st.Status = capture.GRPC, "", st.status
	}
	p.emit(st.Exchange)
}

// Statuses of gRPC that stand for failures below it.
const (
	grpcCancelled         = 1
	grpcUnknown           = 2
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcUnimplemented     = 12
	grpcInternal          = 13
	grpcUnavailable       = 14
	grpcUnauthenticated   = 16
)

// fromHTTP is the gRPC status that clients make of an HTTP status without one, such as a
// proxy's (gRPC's http-grpc-status-mapping).
func fromHTTP(status int) int {
	switch status {
	case 400:
		return grpcInternal
	case 401:
		return grpcUnauthenticated
	case 403:
		return grpcPermissionDenied
	case 404:
		return grpcUnimplemented
	case 429, 502, 503, 504:
		return grpcUnavailable
	}
	return grpcUnknown
}

// fromReset is the gRPC status that clients make of the code of a reset (gRPC over HTTP2,
// section Errors).
func fromReset(code uint32) int {
	switch code {
	case 0x7: // REFUSED_STREAM
		return grpcUnavailable
	case 0x8: // CANCEL
		return grpcCancelled
	case 0xb: // ENHANCE_YOUR_CALM
		return grpcResourceExhausted
	case 0xc: // INADEQUATE_SECURITY
		return grpcPermissionDenied
	}
	return grpcInternal
}

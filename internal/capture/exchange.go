package capture

import (
	"net/netip"
	"time"
)

// Protocols, as Exchange.Protocol and Conn.Protocol say them.
const (
	HTTP       = "http"  // HTTP/1.x
	HTTP2      = "http2" // in clear
	GRPC       = "grpc"
	DNS        = "dns"
	TLS        = "tls"
	PostgreSQL = "postgresql"
	MySQL      = "mysql"
	Redis      = "redis"
	// Turns is any other protocol: a turn is what one side sends until the other answers.
	Turns = "turns"
)

// Span is a message: from its first to its last byte.
type Span struct {
	First, Last Mark
	// Bytes on the wire, headers included; those that the capture lacks count too.
	Bytes int64
}

// Duration is from the first to the last byte.
func (s Span) Duration() time.Duration { return s.Last.Time.Sub(s.First.Time) }

// Extend adds the part that comes next.
func (s *Span) Extend(part Span) {
	if !s.First.Seen() {
		s.First = part.First
	}
	s.Last = part.Last
	s.Bytes += part.Bytes
}

// Exchange is one question and its answer on a connection.
type Exchange struct {
	Conn     *Conn
	Protocol string
	// Request is the question. Response is its final answer, with First not seen when
	// there is none in the capture.
	Request, Response Span
	// Op and Target say what was asked, without secrets: method and path (the query
	// string is left out) of HTTP, /service/method of gRPC with Op empty, statement with
	// literals replaced by "?" of SQL and its first word as Op, command of Redis, name
	// and type of DNS. TLS: Op "handshake", or "data" for a turn of closed content.
	Op, Target string
	// Authority is the name that was asked for: Host header, :authority, SNI.
	Authority string
	// Status is the HTTP status, the gRPC status (-1 if the capture does not show it), or
	// DNS's response code.
	Status int
	// Failed says that the answer was an error in its protocol's own terms.
	Failed bool
	// Code is the error as databases name it: the SQLSTATE of PostgreSQL, the number of
	// MySQL, the first word of Redis; "" without an error.
	Code string
	// Stream is the HTTP/2 stream.
	Stream uint32
	// First says that it is the first exchange on its connection, Index its number there
	// from 0.
	Index uint64
	// Keys are what ties exchanges of one request to another exactly.
	Keys Keys
	// Process is who asked or answered at the captured machine, if known.
	Process Process
	// At most one of these, by Protocol.
	HTTP *HTTPDetail
	DNS  *DNSDetail
	TLS  *TLSDetail
}

// Answered says whether the answer was seen to its end.
func (x *Exchange) Answered() bool { return x.Response.Last.Seen() }

// Start is when the first byte of the question was captured.
func (x *Exchange) Start() Time { return x.Request.First.Time }

// End is when the last byte was captured, of the answer if there is one.
func (x *Exchange) End() Time {
	if x.Answered() {
		return x.Response.Last.Time
	}
	return x.Request.Last.Time
}

// Client and Server are the two ends.
func (x *Exchange) Client() netip.AddrPort { return x.Conn.Addr[Client] }

// Server is the end that answers.
func (x *Exchange) Server() netip.AddrPort { return x.Conn.Addr[Server] }

// Keys are identifiers in a message that its sender copies to what it causes. They are
// hashes: the values themselves are not kept. Zero is none.
type Keys struct {
	// Trace is the trace id of traceparent, b3 or x-b3-traceid.
	Trace uint64
	// Request is x-request-id.
	Request uint64
}

// HTTPDetail is what else is kept of HTTP/1.x, HTTP/2 and gRPC messages.
type HTTPDetail struct {
	UserAgent string // as sent, at most MaxText bytes
	// Close says that either message ended the connection by "Connection: close" or
	// HTTP/1.0.
	Close bool
	// Continue says that the client waited for a 100 before its body.
	Continue bool
	// Interim is when the first 1xx answer came.
	Interim Mark
	// HeadersEnd is the last byte of the response's headers.
	HeadersEnd Mark
	// Signed says that the request was signed with AWS credentials (Signature V2 or V4).
	Signed bool
	// Action is the Action parameter of an AWS query call, such as
	// AssumeRoleWithWebIdentity; "" if there is none.
	Action string
	// Metadata is set when it went to a cloud's metadata service.
	Metadata *Metadata
}

// Metadata is a call to a metadata service.
type Metadata struct {
	Provider MetadataProvider
	Kind     MetadataKind
	// Token says that the request carried a session token (AWS, version 2).
	Token bool
	// Expires is when the served credentials end; zero if unknown.
	Expires Time
}

// MetadataProvider is whose metadata service it is.
type MetadataProvider string

// Providers of metadata services.
const (
	AWSInstance  MetadataProvider = "AWS instance metadata service"
	AWSContainer MetadataProvider = "AWS container credentials service" // ECS, 169.254.170.2
	AWSPodAgent  MetadataProvider = "EKS Pod Identity agent"            // 169.254.170.23, [fd00:ec2::23]
	Google       MetadataProvider = "Google metadata server"
	Azure        MetadataProvider = "Azure instance metadata service"
)

// MetadataKind is what is asked of a metadata service.
type MetadataKind uint8

// Kinds of metadata calls.
const (
	MetadataOther MetadataKind = iota
	// MetadataSession is PUT /latest/api/token, which starts a session of version 2.
	MetadataSession
	// MetadataRole asks for the name of the role.
	MetadataRole
	// MetadataCredentials asks for credentials, or for an access token.
	MetadataCredentials
)

// DNSDetail is what a DNS answer said.
type DNSDetail struct {
	ID   uint16
	Type string // A, AAAA, …
	// Addresses of the answer, at most MaxAddresses.
	Addresses []netip.Addr
	// TTL is the least of the answer's records; of a negative answer that of its SOA.
	// It is meaningful only with an answer that has records.
	TTL time.Duration
	// Resent are the repetitions of the question with the same ID, port and server.
	Resent []Mark
	// Truncated answers make the client ask again over TCP.
	Truncated bool
}

// TLSDetail is what a handshake shows before it closes.
type TLSDetail struct {
	// Version is the negotiated one, such as 0x0304 for TLS 1.3; 0 is unknown.
	Version uint16
	ALPN    string
	// Resumed says that a session was resumed.
	Resumed bool
	// Retried says that the server asked for another ClientHello, which cost a round trip.
	Retried bool
	// Alert is the number of a fatal alert that ended the handshake; -1 is none.
	Alert int
}

const (
	// MaxText bounds texts that are kept from messages, in bytes.
	MaxText = 256
	// MaxAddresses bounds the addresses kept of a DNS answer.
	MaxAddresses = 16
)

// Package http2 understands HTTP/2 in clear, and gRPC on it, on the bytes of a connection.
//
// Bytes of each side are cut into frames; those with headers go through the side's
// [decoder] of HPACK, all of them in order, since each may refer to what came before; the
// [parser] gathers what belongs to one stream, and tells it as one exchange from its first
// HEADERS to the end of the response. A streaming call is one exchange, however long.
//
// Where a capture begins in the middle of a connection, or lacks a frame with headers,
// references to what is not known stay unknown: such fields are left empty, and count as
// lost. They are never guessed.
//
// An exchange of HTTP/2 failed if its status is 500 or more or the server reset it, one
// of gRPC if its status is not 0.
package http2

// Package http1 understands HTTP/1.0 and HTTP/1.1 on the bytes of a connection.
//
// Each side's bytes run through a [half]: lines, headers and bodies, found as they come,
// in whatever pieces; only the beginning of a line whose end is not there yet is copied.
// The [parser] above the two halves pairs what they find: responses answer requests in
// the order in which those came. Messages that were cut end where the next one begins.
//
// A message is complete with the packet that brings its last byte: of its headers if it
// has no body, of a response without length the one that closes the connection. So
// Response.Last − Request.Last is what Wireshark calls http.time. An exchange failed if
// its status is 500 or more.
package http1

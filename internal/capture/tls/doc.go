// Package tls reads what TLS leaves in the clear: how a handshake went, and when closed
// content was sent.
//
// # The handshake
//
// An exchange with Op "handshake". Its question is the first ClientHello, its answer
// begins with the server's first record and lasts until the packets show that the
// handshake is done, whoever sent the last of it:
//
//   - TLS 1.2 and older: until both sides' Finished, the first handshake record after
//     the side's ChangeCipherSpec. In a full handshake the server's is the last, in an
//     abbreviated one, which resumes a session, the client's.
//   - TLS 1.3: until the client's first encrypted record after encrypted ones of the
//     server. It holds the client's Finished, or the certificate before it. What the
//     client sends earlier is early data.
//   - If that is not in the capture: until the last handshake record before the server's
//     first data.
//
// A HelloRetryRequest belongs to the handshake. A fatal alert ends it and makes it
// failed; so does, in TLS 1.3, an encrypted record that is too short for a Finished,
// whose alert's number cannot be read. Authority is the server name that the ClientHello
// asks for. Version, application protocol (in TLS 1.3 closed) and resumption are the
// ServerHello's.
//
// # Data
//
// After it, exchanges with Op "data": a turn is the records that the client sends until
// the server answers, and the server's until the client speaks again. Their content is
// closed, so three things are guessed:
//
//   - The server's first records behind a handshake of TLS 1.3 are its session tickets: up
//     to four, short and of one size; unless nothing follows them in the turn.
//   - In TLS 1.3 an alert looks like data of two bytes. Such a record is no question, and
//     as the last of an answer no part of it: it is a close_notify.
//   - Where records are missing, all bytes count as data until one begins a packet.
//
// Connections that began before the capture have data alone.
package tls

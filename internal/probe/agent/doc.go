// Package agent brings the two ends of a trial together: it is what `taper net serve`
// runs, and how others ask it.
//
// # One port
//
// An agent listens on one port. The first 32 bytes of a TCP connection tell what it is
// for: a greeting begins a control connection, a hello with the ticket of the trial that
// runs begins a data connection, and anything else is closed and counted. A datagram with
// such a hello gets a socket of its own, bound to the same port and connected to its
// sender; other datagrams are counted and never answered.
//
// # Control
//
// Both sides say in their greetings which protocol they speak and whether TLS comes next,
// so that a difference is told by name on both sides. Then both prove that they know the
// token, by HMAC-SHA256 over what both made up for this handshake (and over the TLS
// connection, if there is one): the token itself never leaves its process. Everything
// after that are messages: JSON behind a length of four bytes, bounded, each with a
// deadline.
//
//	asker                                 agent
//	greeting        ─────────────────▶
//	                ◀─────────────────    greeting
//	nonce, proof    ◀────────────────▶    nonce, proof
//	run: spec       ─────────────────▶    waits for the turn
//	                ◀─────────────────    ticket
//	near end        ◀══════ data ═════▶   far end
//	end             ─────────────────▶
//	                ◀─────────────────    run: what the far end saw
//
// Each side gives a sign of life every second, and takes the other for gone after five
// without one (twenty, while datagrams are sent as fast as they go). A trial then ends
// with what there is, and says why.
//
// To measure between two agents, one of them is asked to be the near end ([Client.Delegate]).
// It shows the other one proofs that the asker made, and learns no token.
//
// # What an agent stands
//
// It can be left running: how long a trial is, what it carries and what its buffers take
// are limited, as are those who may ask and whom they may have it measure to ([Limits]).
// What strangers can make it hold is bounded, a wrong token is answered late, one trial
// runs at a time, and every connection has an end.
//
// Start with [Listen] and [Server.Serve], and on the other side with [Dial] and
// [Client.Run]: the example has both. How a connection is told apart is in greet, what an agent does for those
// who know the token in session.
package agent

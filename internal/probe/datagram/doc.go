// Package datagram is both ends of the tests that send UDP: bandwidth (udp_bw), latency
// (udp_lat) and the path MTU (path_mtu).
//
// [Near] and [Far] each open or take the sockets of a trial (a party of ends), greet, and
// run a part on a thread for each:
//
//	          near                     far
//	udp_bw    blast ── data ─────────▶ sink        (the other way round for Direction In)
//	udp_lat   call ── number ────────▶ echo
//	               ◀── number ────────
//	path_mtu  findMTU ── packet, ask ▶ sizes
//	               ◀── arrived, given
//
// Nothing else may be relied on to arrive either. The near end says hello until the far
// end says it, too; who sends last says finish with the number of what was sent until the
// other says finished, and bye at last. A trial that is stopped ends with bye alone. What
// waits for something is as patient as the constants of handshake.go say, and no end takes
// longer than [Limit].
//
// A datagram begins with a header (wire.go), but for messages of a latency test, which
// have what length was asked for and begin with their number. What has a wrong tag,
// length or number is foreign: it is counted, and changes nothing. The receiver remembers
// the latest million numbers (window.go), the near end of a closed loop the latest 256
// messages (journal.go).
//
// Each datagram is a call of the kernel of its own: see [end.blast].
package datagram

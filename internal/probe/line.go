package probe

import (
	"net"
	"net/netip"
)

// Line leads a near end to the far end of its trial.
type Line struct {
	Peer netip.AddrPort
	// Local is where connections come from; the zero address leaves it to the kernel.
	Local netip.Addr
	// Hello is what each data connection begins with, and each datagram until the far end
	// answers: it says which trial this is. It has [HelloBytes].
	Hello []byte
}

// HelloBytes is the length of a hello.
const HelloBytes = 32

// Arrivals bring a far end what was opened for its trial. Whoever takes something from a
// channel closes it.
type Arrivals struct {
	// Streams are connections whose hello was read and is right.
	Streams <-chan *net.TCPConn
	// Datagrams are sockets connected to a near end that has said hello. It says so again
	// until it is answered: with the hello itself.
	Datagrams <-chan *net.UDPConn
}

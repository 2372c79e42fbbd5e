package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from below the range that outgoing connections use: one of those
// could hold the port of a server that is about to be started again.
const (
	firstPort = 20000
	lastPort  = 32000
)

var nextPort = struct {
	sync.Mutex
	n int
}{n: firstPort + rand.IntN(lastPort-firstPort)}

// freePort returns a loopback port that nobody listens at and that was not handed
// out just before.
func freePort() (int, error) {
	nextPort.Lock()
	defer nextPort.Unlock()
	for range lastPort - firstPort {
		if nextPort.n++; nextPort.n >= lastPort {
			nextPort.n = firstPort
		}
		l, err := net.Listen("tcp", loopback(nextPort.n))
		if err == nil {
			return nextPort.n, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d", firstPort, lastPort)
}

// loopback is an address to listen at and to connect to.
func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

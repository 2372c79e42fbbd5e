package probe

import (
	"errors"
	"time"
)

// BinWidth is how finely bandwidth is told over time.
const BinWidth = 100 * time.Millisecond

// Trial is what one measurement gave. A trial that ended early says so and keeps what
// it had.
type Trial struct {
	Spec Spec `json:"spec"`
	// Start is the time of day at the near end: a label.
	Start time.Time `json:"start"`
	Near  Side      `json:"near"`
	Far   Side      `json:"far"`
	// RTT is from when a message was meant to be sent until its answer was there whole:
	// of a latency test, the round trip; of conn, connecting too.
	RTT *Distribution `json:"rtt,omitempty"`
	// Connect is how long connecting took: of conn and responsiveness.
	Connect *Distribution `json:"connect,omitempty"`
	// Load is what a responsiveness trial adds: latency inside the loaded connections
	// (RTT is then beside them, on connections of their own).
	Load *Distribution `json:"load,omitempty"`
	// Idle is what RTT is before there is load, in a responsiveness trial.
	Idle *Distribution `json:"idle,omitempty"`
	// Unanswered counts messages whose answer never came.
	Unanswered int64 `json:"unanswered,omitempty"`
	// PathMTU is what a path_mtu trial found.
	PathMTU *PathMTUFound `json:"path_mtu,omitempty"`
	// FarHost is the agent at the far end, without its interfaces, of a trial that one agent
	// ran with another: an address may lead to any of several.
	FarHost *Host `json:"far_host,omitempty"`
	// Incomplete says why the trial ended before its time; empty for a whole one.
	Incomplete string `json:"incomplete,omitempty"`
}

// ErrBusy is why a trial did not begin: the far end was at another for as long as this one
// could wait.
var ErrBusy = errors.New("the agent is at another trial")

// Side is what one end saw.
type Side struct {
	// Elapsed runs from this end's first byte to its last.
	Elapsed time.Duration `json:"elapsed_ns"`
	// SentBytes and ReceivedBytes count payload; of what is received in messages, whole ones.
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
	// Sent and Received count messages.
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	// Reordered and Duplicated count datagrams.
	Reordered  int64 `json:"reordered,omitempty"`
	Duplicated int64 `json:"duplicated,omitempty"`
	// Foreign counts datagrams that came on the trial's sockets and are none of its.
	Foreign int64 `json:"foreign,omitempty"`
	// Bins are the bytes received (at the end that receives), or sent, in each [BinWidth].
	Bins []int64 `json:"bins,omitempty"`
	// TCP is what the kernel says of each stream when it ends.
	TCP []TCPInfo `json:"tcp,omitempty"`
	// Usage is what the threads of this end used.
	Usage Usage `json:"usage"`
}

// Usage is what an end's threads used while they measured.
type Usage struct {
	User   time.Duration `json:"user_ns"`
	System time.Duration `json:"system_ns"`
	// CPUs are those on which the threads were seen, rising.
	CPUs []int `json:"cpus,omitempty"`
	// Preempted counts how often a thread had to give up its CPU; Waited how often it
	// gave it up by itself.
	Preempted int64 `json:"preempted"`
	Waited    int64 `json:"waited"`
	// Throttled is for how long the kernel kept this end's control group from running
	// because of its CPU limit; nil if that cannot be read.
	Throttled *time.Duration `json:"throttled_ns,omitempty"`
	// ClockStep is by how much the time of day jumped, beside the monotonic clock.
	ClockStep time.Duration `json:"clock_step_ns,omitempty"`
}

// TCPInfo is what Linux knows of a connection (struct tcp_info).
type TCPInfo struct {
	// Busy is how long there was something to send; of it RwndLimited waited for the
	// receiver's window, and SndbufLimited for room in the send buffer.
	Busy          time.Duration `json:"busy_ns"`
	RwndLimited   time.Duration `json:"rwnd_limited_ns"`
	SndbufLimited time.Duration `json:"sndbuf_limited_ns"`
	// Retransmits counts segments sent again, Segments all that were sent.
	Retransmits uint32 `json:"retransmits"`
	Segments    uint32 `json:"segments"`
	// RTT and MinRTT are the kernel's own estimates.
	RTT    time.Duration `json:"rtt_ns"`
	MinRTT time.Duration `json:"min_rtt_ns"`
	// PMTU is the path MTU that the kernel believes in, MSS what it sends at most, bytes.
	PMTU uint32 `json:"pmtu"`
	MSS  uint32 `json:"mss"`
	// Congestion is the algorithm's name, Cwnd its window in segments.
	Congestion string `json:"congestion"`
	Cwnd       uint32 `json:"cwnd"`
}

// PathMTUFound is what a search for the path MTU found, all in bytes of IP packets.
type PathMTUFound struct {
	// Out and In are the largest packets that got through whole, each way; 0 if none did.
	Out int `json:"out"`
	In  int `json:"in"`
	// Believed is what the near end's kernel sends at most to the peer, from its
	// interface and what routers told it.
	Believed int `json:"believed"`
	// FarBelieved is that of the far end's kernel; 0 if it did not say.
	FarBelieved int `json:"far_believed,omitempty"`
	// BlackHole is set if packets that the sender's kernel believes in vanish without a word: a
	// connection hangs when its first full segment is sent.
	BlackHole bool `json:"black_hole"`
}

// Host says who an agent is, and where it runs.
type Host struct {
	// Version is taper's.
	Version string `json:"version"`
	// Name is the host's, Node the Kubernetes node's if it was told.
	Name   string `json:"name"`
	Node   string `json:"node,omitempty"`
	Kernel string `json:"kernel"`
	CPUs   int    `json:"cpus"`
	// Path is which way leads to the agent, as whoever started it said.
	Path Path `json:"path,omitempty"`
	// Interfaces are those that are up and not the loopback.
	Interfaces []Interface `json:"interfaces,omitempty"`
}

// Interface is a network interface with its counters.
type Interface struct {
	Name string `json:"name"`
	MTU  int    `json:"mtu"`
	// SpeedBits is what the link can do, bits per second; 0 if it does not say.
	SpeedBits int64  `json:"speed_bits_per_s,omitempty"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
	RxDropped uint64 `json:"rx_dropped"`
	TxDropped uint64 `json:"tx_dropped"`
}

// Path is one way between two places.
type Path string

// The paths.
const (
	HostPath     Path = "host"
	PodPath      Path = "pod"
	ServicePath  Path = "service"
	BalancerPath Path = "balancer"
)

// Paths are all of them, the native one first.
var Paths = []Path{HostPath, PodPath, ServicePath, BalancerPath}

// Package stream is both ends of the tests over TCP: [Near] and [Far] run tcp_bw, tcp_lat,
// conn and responsiveness, each stream on a thread of its own with a raw blocking socket.
//
// A near end opens its connections, each beginning with the trial's hello. What follows:
//
//	tcp_bw          the far end says that it is there (1 byte) once all connections are;
//	                then one end writes until the other, whose window of time is over,
//	                closes. See window and send.
//	tcp_lat         the same byte, then messages and answers until the near end closes.
//	                See ask (closed loop) and askAtRate (open loop).
//	conn            a message and an answer on each of many connections, which the near
//	                end resets. See connectAll.
//	responsiveness  connections of three kinds, which the first byte tells. See loader and host.
//
// Nothing in a loop that is timed allocates, takes a lock or talks to another goroutine.
// The clock is the monotonic one (CLOCK_MONOTONIC, read without entering the kernel),
// once for each message.
package stream

// Package socket is what both ends of a measurement need of the kernel (Linux), below the
// runtime's network poller, which would add as much as a round trip takes.
//
// [Thread] runs a loop on a thread of its own and says what it used. [Dial] and [FD] give
// blocking descriptors; [Read], [ReadFull] and [Write] use them and survive signals, with
// [Spin] for ends that do not wait in the kernel; [Until] waits for the time at which
// something is meant to be sent. A [Group] makes all of them return when
// the trial is over. [Info] tells why a connection was slow.
package socket

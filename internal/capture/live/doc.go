// Package live captures packets from this machine's interfaces, on Linux.
//
// A [Source] is a packet socket with a ring that the kernel fills and this process reads
// in place (TPACKET_V3): no system call and no copy per packet. The socket is a cooked
// one, also for a single interface, because then the kernel says which way each packet
// went; packets come with the header that `tcpdump -i any` writes (LINKTYPE_LINUX_SLL2).
//
// The kernel counts what it had to drop because the ring was full; see [Source.Stats].
package live

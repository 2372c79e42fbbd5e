// Package frame understands a packet's headers: link layer, IPv4 and IPv6, TCP and UDP.
//
// A [Decoder] turns a [capture.Packet] into a [capture.Frame] without copying or
// allocating; fragments alone are copied, into bounded memory, until the last of them
// makes a packet. What a packet is not, is counted and never an error: captures hold ARP,
// broken packets, and packets that were cut.
//
// Length on the wire and bytes captured are kept apart everywhere: headers say the first,
// the file has the second. Checksums are not looked at, because offloading leaves them
// wrong in packets that were captured where they were sent.
package frame

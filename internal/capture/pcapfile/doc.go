// Package pcapfile reads packets from capture files: pcap and pcapng, plain or
// compressed with gzip or zstd, from files or from a pipe, one or many.
//
// A [Reader] is a row of streams, one per file, in the order of their first packets'
// times, so that the files of a rotated capture may be given in any order. Packet numbers
// go on through all of them; [Reader.Files] says which file has which numbers.
//
//	file or pipe → counter → gzip, zstd → window → pcap or pcapng → Packet
//
// The window is one buffer in which packets are looked at where they lie: a packet's data
// is valid until the next one is read, and reading one allocates nothing. The window asks
// the file for no more than it has, so packets of a pipe are there as soon as they are
// written.
//
// A capture that breaks off (a full disk, a killed tcpdump) is normal. What was read
// stays read; [Reader.Damage] says in words where it broke. Only input that is no capture
// at all is an error.
//
// Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. Beyond them: processes as
// Apple's tcpdump writes them (a block of their own, and options that point to it) and as
// ptcpdump does (lines in comments).
package pcapfile

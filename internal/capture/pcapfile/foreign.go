package pcapfile

import (
	"bytes"
	"fmt"
)

// foreign are files that people take for captures, by how they begin.
var foreign = []struct{ magic, is, cure string }{
	{"\xfd7zXZ\x00", "xz", "decompress it first: `xz -dc FILE | taper explain -`"},
	{"BZh", "bzip2", "decompress it first: `bzip2 -dc FILE | taper explain -`"},
	{"\x04\x22\x4d\x18", "lz4", "decompress it first: `lz4 -dc FILE | taper explain -`"},
	{"PK\x03\x04", "a zip archive", "unpack it first: `unzip -p FILE | taper explain -`"},
	{"\x1f\x8b", "gzip within gzip or zstd", "decompress it once first"},
	{"\x28\xb5\x2f\xfd", "zstd within gzip or zstd", "decompress it once first"},
	{"snoop\x00\x00\x00", "a snoop capture", "convert it with `editcap -F pcap FILE OUT`"},
	{"GMBU", "a Microsoft Network Monitor capture", "convert it with `editcap -F pcap FILE OUT`"},
	{"XCP\x00", "a NetXRay capture", "convert it with `editcap -F pcap FILE OUT`"},
	{"\x7fELF", "a program", "give a file that `tcpdump -w` wrote"},
}

// notCapture is the error about a file that begins so.
func notCapture(begin []byte) error {
	const want = "which is not pcap, pcapng, gzip or zstd"
	for _, f := range foreign {
		if bytes.HasPrefix(begin, []byte(f.magic)) {
			return fmt.Errorf("is %s, %s; %s", f.is, want, f.cure)
		}
	}
	if len(begin) > 262 && string(begin[257:262]) == "ustar" {
		return fmt.Errorf("is a tar archive, %s; unpack it first: `tar -xOf FILE | taper explain -`", want)
	}
	begin = begin[:min(len(begin), 16)]
	if text(begin) {
		return fmt.Errorf("begins with the text %q, %s; packets are written with `tcpdump -w FILE`, not with `tcpdump > FILE`", begin, want)
	}
	return fmt.Errorf("begins with % x, %s; give a file that `tcpdump -w` or Wireshark wrote", begin[:min(len(begin), 8)], want)
}

func text(b []byte) bool {
	for _, c := range b {
		if c != '\n' && c != '\r' && c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}

package dns

import (
	"strconv"

	"taper.dev/taper/internal/capture"
)

// maxNames bounds the names that are remembered.
const maxNames = 8192

// names remembers what names on the wire are as text, so that a name that was met before
// costs neither time nor memory.
type names struct{ known map[string]string }

// text is a name in lower case, with dots between labels but none at the end; "." is the
// root. Bytes that are not printable are written as in zone files.
func (n *names) text(wire []byte) string {
	if s, ok := n.known[string(wire)]; ok {
		return s
	}
	if n.known == nil || len(n.known) == maxNames {
		n.known = make(map[string]string)
	}
	text := make([]byte, 0, len(wire))
	for at := 0; wire[at] != 0; at += 1 + int(wire[at]) {
		if at > 0 {
			text = append(text, '.')
		}
		text = appendLabel(text, wire[at+1:at+1+int(wire[at])])
	}
	if len(text) == 0 {
		text = append(text, '.')
	}
	s := string(text[:min(len(text), capture.MaxText)])
	n.known[string(wire)] = s
	return s
}

// appendLabel appends a label in lower case.
func appendLabel(to, label []byte) []byte {
	for _, c := range label {
		switch {
		case 'A' <= c && c <= 'Z':
			to = append(to, c|0x20)
		case c == '.' || c == '\\':
			to = append(to, '\\', c)
		case c <= ' ' || c >= 0x7f:
			to = append(to, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
		default:
			to = append(to, c)
		}
	}
	return to
}

// types are the record types that are met, by their numbers.
var types = map[uint16]string{
	1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 13: "HINFO", 15: "MX", 16: "TXT",
	24: "SIG", 25: "KEY", 28: "AAAA", 29: "LOC", 33: "SRV", 35: "NAPTR", 37: "CERT",
	39: "DNAME", 43: "DS", 44: "SSHFP", 46: "RRSIG", 47: "NSEC", 48: "DNSKEY", 50: "NSEC3",
	51: "NSEC3PARAM", 52: "TLSA", 61: "OPENPGPKEY", 64: "SVCB", 65: "HTTPS", 99: "SPF",
	249: "TKEY", 250: "TSIG", 251: "IXFR", 252: "AXFR", 255: "ANY", 256: "URI", 257: "CAA",
}

// typeName is a record type's name; one without is written as in RFC 3597.
func typeName(kind uint16) string {
	switch kind {
	case typeA:
		return "A"
	case typeAAAA:
		return "AAAA"
	}
	if name, ok := types[kind]; ok {
		return name
	}
	return "TYPE" + strconv.Itoa(int(kind))
}

package synth

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Planted is a secret that every capture carries, where secrets are: nothing that is
// said about a capture may contain it.
const Planted = "pLaNtEdSeCrEt0123456789"

// request is an HTTP request.
func request(method, path, host, agent, trace string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s?token=%s HTTP/1.1\r\nHost: %s\r\n", method, path, Planted, host)
	if agent != "" {
		fmt.Fprintf(&b, "User-Agent: %s\r\n", agent)
	}
	if trace != "" {
		fmt.Fprintf(&b, "traceparent: 00-%s-00f067aa0ba902b7-01\r\n", trace)
	}
	fmt.Fprintf(&b, "Authorization: Bearer %s\r\nCookie: session=%s\r\nAccept: */*\r\n", Planted, Planted)
	if len(body) > 0 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

func response(status int, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nSet-Cookie: session=%s\r\nContent-Length: %d\r\n\r\n",
		status, http.StatusText(status), Planted, len(body))
	b.Write(body)
	return b.Bytes()
}

// credentials is the answer of an instance's metadata service.
func credentials(expire time.Time) []byte {
	return fmt.Appendf(nil, `{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"ASIA%s","SecretAccessKey":"%s","Token":"%s","Expiration":"%s"}`,
		Planted, Planted, Planted, expire.UTC().Format(time.RFC3339))
}

func filler(n int) []byte { return bytes.Repeat([]byte("x"), n) }

// fill replaces %d by a number.
func fill(path string, r *rand.Rand) string {
	return strings.ReplaceAll(path, "%d", strconv.Itoa(1000+r.IntN(9000)))
}

func traceID(r *rand.Rand) string { return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()) }

const (
	typeA    = 1
	typeAAAA = 28
)

// question is a DNS question.
func question(id uint16, name string, family uint16) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	b = append(b, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	return appendQuestion(b, name, family)
}

func appendQuestion(b []byte, name string, family uint16) []byte {
	for _, label := range strings.Split(name, ".") {
		b = append(b, byte(len(label)))
		b = append(b, label...)
	}
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, family)
	return append(b, 0, 1)
}

// answer says where a name is, if it is there and has addresses of that family.
func answer(id uint16, name string, family uint16, missing bool, found ...netip.Addr) []byte {
	found = slices.DeleteFunc(slices.Clone(found), func(a netip.Addr) bool { return !a.IsValid() || a.Is4() != (family == typeA) })
	b := binary.BigEndian.AppendUint16(nil, id)
	code := byte(0x80)
	if missing {
		code = 0x83
	}
	b = append(b, 0x81, code, 0, 1, 0, byte(len(found)), 0, 0, 0, 0)
	b = appendQuestion(b, name, family)
	for _, a := range found {
		b = append(b, 0xc0, 12)
		b = binary.BigEndian.AppendUint16(b, family)
		b = append(b, 0, 1, 0, 0, 0, 30)
		address := a.AsSlice()
		b = binary.BigEndian.AppendUint16(b, uint16(len(address)))
		b = append(b, address...)
	}
	return b
}

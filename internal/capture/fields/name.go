package fields

// MaxName is the length of the longest name, in bytes.
const MaxName = 24

// Name is a field of HTTP that matters here.
type Name uint8

// Names; Other is every field that is passed over.
const (
	Other Name = iota
	Authorization
	B3
	B3TraceID
	Connection
	ContentLength
	ContentType
	Expect
	GRPCStatus
	Host
	Metadata       // Azure's instance metadata service asks for it
	MetadataFlavor // Google's does for this one
	MetadataToken  // AWS's session token
	RequestID
	TraceParent
	TransferEncoding
	Upgrade
	UserAgent
)

// Of says which field a name is, in any case.
func Of(name []byte) Name {
	switch len(name) {
	case 2:
		return is(name, "b3", B3)
	case 4:
		return is(name, "host", Host)
	case 6:
		return is(name, "expect", Expect)
	case 7:
		return is(name, "upgrade", Upgrade)
	case 8:
		return is(name, "metadata", Metadata)
	case 10:
		if name[0]|0x20 == 'u' {
			return is(name, "user-agent", UserAgent)
		}
		return is(name, "connection", Connection)
	case 11:
		if name[0]|0x20 == 'g' {
			return is(name, "grpc-status", GRPCStatus)
		}
		return is(name, "traceparent", TraceParent)
	case 12:
		return ofTwelve(name)
	case 13:
		return is(name, "authorization", Authorization)
	case 14:
		return is(name, "content-length", ContentLength)
	case 15:
		return is(name, "metadata-flavor", MetadataFlavor)
	case 17:
		return is(name, "transfer-encoding", TransferEncoding)
	case 24:
		return is(name, "x-aws-ec2-metadata-token", MetadataToken)
	}
	return Other
}

func ofTwelve(name []byte) Name {
	switch name[2] | 0x20 {
	case 'n':
		return is(name, "content-type", ContentType)
	case 'b':
		return is(name, "x-b3-traceid", B3TraceID)
	}
	return is(name, "x-request-id", RequestID)
}

// is returns n when name is want, which is in lower case and as long.
func is(name []byte, want string, n Name) Name {
	if Equal(name, want) {
		return n
	}
	return Other
}

// Equal compares text with want, which is in lower case, in any case of letters.
func Equal(text []byte, want string) bool {
	if len(text) != len(want) {
		return false
	}
	for i, b := range text {
		if b >= 'A' && b <= 'Z' {
			b |= 0x20
		}
		if b != want[i] {
			return false
		}
	}
	return true
}

// HasPrefix says whether text begins with want, which is in lower case, in any case of
// letters.
func HasPrefix(text []byte, want string) bool {
	return len(text) >= len(want) && Equal(text[:len(want)], want)
}

// Has says whether a list such as "keep-alive, Upgrade" has the element want, which is
// in lower case.
func Has(list []byte, want string) bool {
	for len(list) > 0 {
		element := list
		for i, b := range list {
			if b == ',' {
				element = list[:i]
				break
			}
		}
		list = list[min(len(element)+1, len(list)):]
		if Equal(Trim(element), want) {
			return true
		}
	}
	return false
}

// Trim takes white space off both ends.
func Trim(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t') {
		text = text[1:]
	}
	for n := len(text); n > 0; n = len(text) {
		if last := text[n-1]; last != ' ' && last != '\t' && last != '\r' {
			break
		}
		text = text[:n-1]
	}
	return text
}

package fields

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

// known are the names by their first letter in lower case, each as most write it and in
// lower case.
var known = [...][]spelled{
	'a': {{"Authorization", "authorization", Authorization}},
	'b': {{"B3", "b3", B3}},
	'c': {
		{"Content-Length", "content-length", ContentLength},
		{"Content-Type", "content-type", ContentType},
		{"Connection", "connection", Connection},
	},
	'e': {{"Expect", "expect", Expect}},
	'g': {{"Grpc-Status", "grpc-status", GRPCStatus}},
	'h': {{"Host", "host", Host}},
	'm': {{"Metadata", "metadata", Metadata}, {"Metadata-Flavor", "metadata-flavor", MetadataFlavor}},
	't': {
		{"Traceparent", "traceparent", TraceParent},
		{"Transfer-Encoding", "transfer-encoding", TransferEncoding},
	},
	'u': {{"User-Agent", "user-agent", UserAgent}, {"Upgrade", "upgrade", Upgrade}},
	'x': {
		{"X-Request-Id", "x-request-id", RequestID},
		{"X-B3-Traceid", "x-b3-traceid", B3TraceID},
		{"X-Aws-Ec2-Metadata-Token", "x-aws-ec2-metadata-token", MetadataToken},
	},
}

// spelled is how a name is written.
type spelled struct {
	usual, lower string
	name         Name
}

// is says whether text is the name, in any case.
func (s *spelled) is(text []byte) bool { return string(text) == s.usual || Equal(text, s.lower) }

// beginning are the names that begin as text does.
func beginning(text []byte) []spelled {
	if len(text) == 0 {
		return nil
	}
	if letter := text[0] | 0x20; int(letter) < len(known) {
		return known[letter]
	}
	return nil
}

// Of says which field a name is, in any case.
func Of(name []byte) Name {
	names := beginning(name)
	for i := range names {
		if s := &names[i]; len(name) == len(s.lower) && s.is(name) {
			return s.name
		}
	}
	return Other
}

// Line reads a line of a header, "name: value". Without one of the names it is Other, and
// no value; most lines are, and those are passed over by their first letter.
func Line(line []byte) (Name, []byte) {
	names := beginning(line)
	for i := range names {
		s := &names[i]
		if n := len(s.lower); len(line) > n && line[n] == ':' && s.is(line[:n]) {
			return s.name, Trim(line[n+1:])
		}
	}
	return Other, nil
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

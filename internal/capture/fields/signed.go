package fields

import "bytes"

// Signed says whether the value of an Authorization field is an AWS signature, version 2
// or 4. It looks at the scheme only.
func Signed(value []byte) bool {
	scheme, _, _ := bytes.Cut(value, []byte{' '})
	return HasPrefix(scheme, "aws4-") || Equal(scheme, "aws")
}

// maxAction is longer than any operation of AWS's query interfaces.
const maxAction = 64

// Action is the Action parameter of an AWS query call, from its query string or form, if
// it is a plain word; else nil. Where certain is false, only a call of the Security Token
// Service (its version says so) counts, since other services may have an Action of their
// own.
func Action(form []byte, certain bool) []byte {
	if !bytes.Contains(form, []byte("Action=")) {
		return nil
	}
	var action []byte
	for len(form) > 0 {
		var parameter []byte
		parameter, form, _ = bytes.Cut(form, []byte{'&'})
		name, value, _ := bytes.Cut(parameter, []byte{'='})
		switch string(name) {
		case "Action":
			if action == nil && isWord(value) {
				action = value
			}
		case "Version":
			certain = certain || string(value) == "2011-06-15"
		}
	}
	if !certain {
		return nil
	}
	return action
}

func isWord(text []byte) bool {
	if len(text) == 0 || len(text) > maxAction {
		return false
	}
	for _, b := range text {
		if lower := b | 0x20; lower < 'a' || lower > 'z' {
			return false
		}
	}
	return true
}

// OfAWS says whether a host is an AWS service, so that its Action parameter is one.
func OfAWS(host string) bool {
	return len(host) > 4 && host[:4] == "sts." || bytes.Contains([]byte(host), []byte(".amazonaws.com"))
}

package fields

// Trace is the hash of a trace id: of the value of traceparent, b3 or x-b3-traceid, as
// name says. It is 0 if there is none. Ids that differ in leading zeros or in case are
// the same, since 64-bit ids are carried as 128-bit ones.
func Trace(name Name, value []byte) uint64 {
	switch name {
	case TraceParent:
		// version "-" trace-id "-" parent-id "-" flags (W3C Trace Context, section 3.2).
		if len(value) < 36 || value[2] != '-' || value[35] != '-' {
			return 0
		}
		return hexID(value[3:35])
	case B3:
		// trace-id "-" span-id ["-" sampled ["-" parent]], or only the sampling.
		for i, b := range value {
			if b == '-' {
				return hexID(value[:i])
			}
		}
		return 0
	case B3TraceID:
		return hexID(value)
	}
	return 0
}

func hexID(id []byte) uint64 {
	if len(id) != 16 && len(id) != 32 {
		return 0
	}
	var lower [32]byte
	for i, b := range id {
		switch {
		case b >= '0' && b <= '9' || b >= 'a' && b <= 'f':
		case b >= 'A' && b <= 'F':
			b |= 0x20
		default:
			return 0
		}
		lower[i] = b
	}
	text := lower[:len(id)]
	for len(text) > 0 && text[0] == '0' {
		text = text[1:]
	}
	if len(text) == 0 {
		return 0
	}
	return hash(text)
}

// Request is the hash of x-request-id; 0 if it is empty.
func Request(value []byte) uint64 {
	if len(value) == 0 {
		return 0
	}
	return hash(value)
}

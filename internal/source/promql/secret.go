package promql

// Secret is a text that nothing shows: not fmt, not a log, not JSON. The zero
// Secret is none.
//
// The text is behind a pointer because fmt does not call the methods of what it
// finds in an unexported field; of a pointer there it prints the address.
type Secret struct{ text *string }

// NewSecret hides text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String tells only whether there is a text.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return "[hidden]"
}

// GoString implements [fmt.GoStringer].
func (s Secret) GoString() string { return "promql.Secret(" + s.String() + ")" }

// MarshalText implements [encoding.TextMarshaler], which JSON and logs use.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

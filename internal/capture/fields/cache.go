package fields

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode"
	"unicode/utf8"

	"taper.dev/taper/internal/capture"
)

// cached is how many strings a Cache holds, a power of two.
const cached = 4096

// Cache turns bytes into strings, and gives one string for the same bytes as long as no
// other took its place. Paths with ids in them never repeat: so it is small, and forgets
// by itself. It is not for several goroutines at once.
type Cache struct {
	text [cached]string
}

// Text is text as a string, cut to capture.MaxText bytes. Control characters, which could
// steer a terminal, and what is not UTF-8 become dots.
func (c *Cache) Text(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	text = text[:min(len(text), capture.MaxText)]
	at := &c.text[hash(text)%cached]
	if *at == string(text) {
		return *at
	}
	if !isClean(text) {
		return cleaned(text)
	}
	*at = string(text)
	return *at
}

func isClean(text []byte) bool {
	ascii := byte(0)
	for _, b := range text {
		if b < ' ' || b == 0x7f {
			return false
		}
		ascii |= b
	}
	return ascii < utf8.RuneSelf || utf8.Valid(text) && bytes.IndexFunc(text, unicode.IsControl) < 0
}

func cleaned(text []byte) string {
	clean := make([]byte, 0, capture.MaxText)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) {
			clean = append(clean, '.')
		} else {
			clean = append(clean, text[:size]...)
		}
		text = text[size:]
	}
	return string(clean)
}

// hash mixes text into 64 bits, eight bytes at a time, by the product of two words whose
// halves are folded together (as in wyhash). It is the same in every run, and never 0.
func hash(text []byte) uint64 {
	const k0, k1 = 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	h := uint64(len(text)) ^ k0
	for len(text) >= 8 {
		h = fold(h^binary.LittleEndian.Uint64(text), k1)
		text = text[8:]
	}
	var last uint64
	for i, b := range text {
		last |= uint64(b) << (8 * i)
	}
	h = fold(fold(h^last, k1)^k0, k1)
	return max(h, 1)
}

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

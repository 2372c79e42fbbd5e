package http2

import "golang.org/x/net/http2/hpack"

const (
	// usualTable is the size of a decoder's table, in bytes, until its peer changes it.
	usualTable = 4096
	// maxTable bounds what it may be changed to. Beyond, fields become unknown.
	maxTable = 64 << 10
	// maxString is more than a string of a header block expands to.
	maxString = 2 * maxBlock
)

// decoder reads the header blocks of one side.
//
// Its table may lack entries that were made before the capture, or in bytes that it does
// not have. Entries count from the newest one, so those that were seen are found at their
// places all the same, and what refers further back is unknown.
type decoder struct {
	hpack *hpack.Decoder
	take  func(name, value string)
	// unknown counts fields that refer to what the capture lacks.
	unknown int
	// used says that the table may have entries.
	used bool
	// nameless is a field that is written anew, reused; placing says that it is being read.
	nameless []byte
	placing  bool
}

func newDecoder(take func(name, value string)) *decoder {
	d := &decoder{take: take}
	d.begin()
	return d
}

func (d *decoder) begin() {
	d.hpack = hpack.NewDecoder(usualTable, d.field)
	d.hpack.SetAllowedMaxDynamicTableSize(maxTable)
	d.hpack.SetMaxStringLength(maxString)
	d.used = false
}

// forget empties the table: bytes are missing that may have changed it.
func (d *decoder) forget() {
	if d.used {
		d.begin()
	}
}

// block reads a whole header block, and says whether it could be read to its end. If not,
// nothing is known of the table any more.
func (d *decoder) block(block []byte) bool {
	d.used = true
	for len(block) > 0 {
		f, ok := parseField(block)
		if !ok || !d.read(block[:f.length], f) {
			d.begin()
			return false
		}
		block = block[f.length:]
	}
	if err := d.hpack.Close(); err != nil {
		d.begin()
		return false
	}
	return true
}

// read reads one field.
func (d *decoder) read(text []byte, f field) bool {
	_, err := d.hpack.Write(text)
	if err == nil {
		return true
	}
	failure, _ := err.(hpack.DecodingError)
	if _, unknown := failure.Err.(hpack.InvalidIndexError); !unknown {
		return false
	}
	d.unknown++
	if !f.added {
		return true
	}
	// It takes its place in the table, without its name, which is not known: as a literal
	// with indexing and a new name of length 0.
	d.nameless = append(append(d.nameless[:0], 0x40, 0), text[f.value:]...)
	d.placing = true
	_, err = d.hpack.Write(d.nameless)
	d.placing = false
	clear(d.nameless)
	return err == nil
}

func (d *decoder) field(f hpack.HeaderField) {
	switch {
	case f.Name != "":
		d.take(f.Name, f.Value)
	case !d.placing:
		d.unknown++
	}
}

// field says how a header field is written (RFC 7541, section 6).
type field struct {
	length int
	// value is where the value of a literal begins; added says that it enters the table.
	value int
	added bool
}

// parseField finds the end of the field that block begins with.
func parseField(block []byte) (f field, ok bool) {
	first := block[0]
	switch {
	case first&0x80 != 0:
		_, f.length, ok = parseInteger(block, 7)
		return f, ok
	case first&0xe0 == 0x20: // a change of the table's size
		_, f.length, ok = parseInteger(block, 5)
		return f, ok
	}
	prefix := 4
	if f.added = first&0x40 != 0; f.added {
		prefix = 6
	}
	name, n, ok := parseInteger(block, prefix)
	if !ok {
		return f, false
	}
	if name == 0 {
		m, ok := parseString(block[n:])
		if !ok {
			return f, false
		}
		n += m
	}
	f.value = n
	m, ok := parseString(block[n:])
	f.length = n + m
	return f, ok
}

// parseString returns the length of the string that text begins with.
func parseString(text []byte) (length int, ok bool) {
	size, n, ok := parseInteger(text, 7)
	if !ok || size > uint64(len(text)-n) {
		return 0, false
	}
	return n + int(size), true
}

// parseInteger reads an integer of which the first byte holds so many bits (RFC 7541,
// section 5.1), and returns how many bytes it has.
func parseInteger(text []byte, bits int) (value uint64, n int, ok bool) {
	if len(text) == 0 {
		return 0, 0, false
	}
	most := uint64(1)<<bits - 1
	value = uint64(text[0]) & most
	if value < most {
		return value, 1, true
	}
	for n := 1; n < len(text) && n <= 5; n++ {
		value += uint64(text[n]&0x7f) << (7 * (n - 1))
		if text[n]&0x80 == 0 {
			return value, n + 1, true
		}
	}
	return 0, 0, false
}

package promql

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxText is more than any label or warning, in bytes.
const maxText = 1 << 20

// answer is what the API says around and about its result.
type answer struct {
	status    string // success or error
	errorType string
	failure   string
	// partial is how VictoriaMetrics says that some of its storage did not answer.
	partial bool
	// warning is the first that says that the answer lacks something.
	warning    string
	resultType string
}

// series is one element of a vector. A scalar is handed on as one without labels.
type series struct {
	// labels are the values of the labels asked for, in their order, each empty where
	// the series lacks it. They are valid until the next series is read.
	labels [][]byte
	value  float64
}

// decoder reads an answer as it arrives. An answer about a whole cluster has tens
// of megabytes, and is never held: each series is handed on and forgotten.
type decoder struct {
	json   *jsontext.Decoder
	labels []string
	take   func(*series) error
	answer answer
	series series
	text   []byte // reused
}

// decode reads one answer to its end and hands each series of a result that is
// a vector, or a scalar, to take. What is said around the result comes after it, so
// only the answer tells whether the series may be used.
//
// The answer is returned beside an error too, as far as it was read.
func decode(r io.Reader, labels []string, take func(*series) error) (answer, error) {
	d := &decoder{
		labels: labels,
		take:   take,
		series: series{labels: make([][]byte, len(labels))},
	}
	// A label that is not UTF-8 is one series' trouble, not that of all.
	d.json = jsontext.NewDecoder(&paced{from: r, decoder: d}, jsontext.AllowInvalidUTF8(true))
	if err := d.object(d.envelope); err != nil {
		return d.answer, err
	}
	switch _, err := d.json.ReadToken(); {
	case err == nil:
		return d.answer, errors.New("there is more after its end")
	case !errors.Is(err, io.EOF):
		return d.answer, err
	}
	return d.answer, nil
}

// paced ends an answer in which a single text or number does not end. The decoder
// holds those as a whole.
type paced struct {
	from    io.Reader
	decoder *decoder
	read    int64
}

func (p *paced) Read(to []byte) (int, error) {
	if p.read-p.decoder.json.InputOffset() > maxText {
		return 0, fmt.Errorf("there is a text of more than %d MiB", maxText>>20)
	}
	n, err := p.from.Read(to)
	p.read += int64(n)
	return n, err
}

func (d *decoder) envelope(field string) (err error) {
	a := &d.answer
	switch field {
	case "status":
		a.status, err = d.string()
	case "errorType":
		a.errorType, err = d.string()
	case "error":
		a.failure, err = d.string()
	case "isPartial":
		a.partial, err = d.bool()
	case "warnings":
		err = d.array(d.warning)
	case "data":
		err = d.object(d.data)
	default:
		err = d.json.SkipValue()
	}
	return err
}

// warning keeps the first one that matters.
func (d *decoder) warning() error {
	text, err := d.string()
	// Prometheus 2.47 to 2.52 sent remarks on style, such as a counter's name
	// without _total, as warnings with this prefix.
	if err == nil && d.answer.warning == "" && !strings.HasPrefix(text, "PromQL info:") {
		d.answer.warning = firstLine(text)
		if d.answer.warning == "" {
			d.answer.warning = "(without words)"
		}
	}
	return err
}

func (d *decoder) data(field string) (err error) {
	switch {
	case field == "resultType":
		d.answer.resultType, err = d.string()
		return err
	case field == "result" && d.answer.couldBeUsed():
		return d.result()
	}
	return d.json.SkipValue()
}

// couldBeUsed is false when the type of the result is known, and another one.
func (a *answer) couldBeUsed() bool {
	return a.resultType == "" || a.resultType == "vector" || a.resultType == "scalar"
}

// result reads a vector, an array of objects, or a scalar, an array of two.
func (d *decoder) result() error {
	if d.json.PeekKind() == 'n' {
		return d.json.SkipValue() // what Go makes of a vector of nothing
	}
	if err := d.expect('['); err != nil {
		return err
	}
	if d.json.PeekKind() == '0' {
		d.series.labels = d.series.labels[:0]
		if err := d.pair(); err != nil {
			return err
		}
		return d.take(&d.series)
	}
	for d.json.PeekKind() != ']' {
		if err := d.element(); err != nil {
			return err
		}
	}
	return d.expect(']')
}

// element reads {"metric":{…},"value":[…]}.
func (d *decoder) element() error {
	for i := range d.series.labels {
		d.series.labels[i] = d.series.labels[i][:0]
	}
	valued := false
	err := d.object(func(field string) error {
		switch field {
		case "metric":
			return d.object(d.label)
		case "value":
			valued = true
			if err := d.expect('['); err != nil {
				return err
			}
			return d.pair()
		}
		return d.json.SkipValue()
	})
	if err != nil {
		return err
	}
	if !valued {
		return errors.New("a series has no value; want plain numbers, not histograms or ranges")
	}
	return d.take(&d.series)
}

// label reads the value of one label.
func (d *decoder) label(name string) error {
	for i, wanted := range d.labels {
		if name != wanted {
			continue
		}
		raw, err := d.value('"')
		if err == nil {
			d.series.labels[i] = unquote(d.series.labels[i], raw)
		}
		return err
	}
	return d.json.SkipValue()
}

// pair reads the rest of an array of a time and a number in a string. The time is
// that of the question, which tells nothing.
func (d *decoder) pair() error {
	if _, err := d.value('0'); err != nil {
		return err
	}
	raw, err := d.value('"')
	if err != nil {
		return err
	}
	d.text = unquote(d.text[:0], raw)
	if d.series.value, err = strconv.ParseFloat(string(d.text), 64); err != nil {
		return fmt.Errorf("a series has the value %q; want a number", bounded(string(d.text)))
	}
	return d.expect(']')
}

// object calls read with the name of each field, for it to read the value.
func (d *decoder) object(read func(field string) error) error {
	if err := d.expect('{'); err != nil {
		return err
	}
	for d.json.PeekKind() != '}' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		if err := read(d.field(raw)); err != nil {
			return err
		}
	}
	return d.expect('}')
}

// field returns the name of a field. Those that occur in each series are not
// copied: there are some hundred thousand series.
func (d *decoder) field(raw jsontext.Value) string {
	d.text = unquote(d.text[:0], raw)
	switch string(d.text) {
	case "metric":
		return "metric"
	case "value":
		return "value"
	}
	for _, label := range d.labels {
		if string(d.text) == label {
			return label
		}
	}
	return string(d.text)
}

// array calls read for each element.
func (d *decoder) array(read func() error) error {
	if d.json.PeekKind() == 'n' {
		return d.json.SkipValue()
	}
	if err := d.expect('['); err != nil {
		return err
	}
	for d.json.PeekKind() != ']' {
		if err := read(); err != nil {
			return err
		}
	}
	return d.expect(']')
}

func (d *decoder) string() (string, error) {
	raw, err := d.value('"')
	if err != nil {
		return "", err
	}
	return string(unquote(nil, raw)), nil
}

func (d *decoder) bool() (bool, error) {
	token, err := d.json.ReadToken()
	if err != nil {
		return false, err
	}
	if k := token.Kind(); k != 't' && k != 'f' {
		return false, shapeError(k, "true or false")
	}
	return token.Bool(), nil
}

// value reads a number or a string. It is valid until the next one is read.
func (d *decoder) value(kind jsontext.Kind) (jsontext.Value, error) {
	if k := d.json.PeekKind(); k != kind && k != 0 {
		return nil, shapeError(k, kind.String())
	}
	return d.json.ReadValue()
}

func (d *decoder) expect(kind jsontext.Kind) error {
	token, err := d.json.ReadToken()
	if err == nil && token.Kind() != kind {
		return shapeError(token.Kind(), kind.String())
	}
	return err
}

func shapeError(is jsontext.Kind, want string) error {
	return fmt.Errorf("there is a JSON %s where a query's answer has %s", is, want)
}

// unquote appends what a string, as the decoder has let it pass, says. That leaves
// one error, bytes that are not UTF-8, in whose place there is the character for it.
func unquote(to []byte, raw jsontext.Value) []byte {
	text, _ := jsontext.AppendUnquote(to, raw)
	return text
}

// complete is an error when the answer says that it lacks something.
func (a *answer) complete() error {
	switch {
	case a.partial:
		return errors.New("the answer is partial: some of the store did not reply; an answer that may lack series is not used")
	case a.warning != "":
		return fmt.Errorf("the store warns %q; an answer that may lack series is not used", a.warning)
	}
	return nil
}

// is an error when the result is of another type.
func (a *answer) is(resultType string) error {
	if a.resultType != resultType {
		return fmt.Errorf("the answer is of type %q; want a %s", bounded(a.resultType), resultType)
	}
	return nil
}

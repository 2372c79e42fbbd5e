// Package strictyaml reads YAML that people write. What it does not know is an error that
// says where it is and what would be right, in one line:
//
//	line 7: arms[1].weigths is unknown: known here are name, policy, weights
//	line 9: load.rate is "fast": it takes a number
//
// [Decode] fills a struct. Checks of values that come after it name them by the same
// paths, and [Lines] adds where they are.
package strictyaml

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Lines has the line of everything that a document says, by its path, such as
// "arms[1].weights.interval". The document itself is "".
type Lines map[string]int

// Errorf is an error about what is at a path, and begins with its line. What the document
// does not say is on the line of what it would be in.
func (l Lines) Errorf(path, format string, args ...any) error {
	at := path
	for l[at] == 0 && at != "" {
		at = at[:max(0, strings.LastIndexAny(at, ".["))]
	}
	err := fmt.Errorf(format, args...)
	if path != "" {
		err = fmt.Errorf("%s %w", path, err)
	}
	if l[at] != 0 {
		err = fmt.Errorf("line %d: %w", l[at], err)
	}
	return err
}

// Decode reads one document into a struct, given by its address. Keys are the yaml tags of
// its fields; those of an embedded struct count as its own. Fields are structs, slices,
// strings, booleans, numbers (float64, int, uint32, uint64), pointers to them, and whatever
// reads itself from text.
// What the document does not say stays as it was.
//
// Anchors and aliases are errors: what is read is as long as what is written.
func Decode(text []byte, into any) (Lines, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if err != nil {
		return nil, plain(err)
	}
	if err := decoder.Decode(new(yaml.Node)); err == nil {
		return nil, errors.New("there is more than one YAML document: only one is read")
	} else if !errors.Is(err, io.EOF) {
		return nil, plain(err)
	}
	lines := Lines{}
	return lines, lines.read("", document.Content[0], reflect.ValueOf(into).Elem())
}

// plain takes the decoder's name from its errors.
func plain(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

// read reads a value, whatever it is.
func (l Lines) read(path string, node *yaml.Node, into reflect.Value) error {
	if l[path] == 0 {
		l[path] = node.Line
	}
	if node.Anchor != "" || node.Kind == yaml.AliasNode {
		return l.Errorf(path, "has an anchor or is an alias: neither is read, so write it out")
	}
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		return l.read(path, node, into.Elem())
	}
	switch {
	case node.Kind == yaml.ScalarNode:
		return l.readScalar(path, node, into)
	case node.Kind == yaml.MappingNode && into.Kind() == reflect.Struct:
		return l.readMapping(path, node, into)
	case node.Kind == yaml.SequenceNode && into.Kind() == reflect.Slice:
		return l.readList(path, node, into)
	case node.Kind == yaml.MappingNode:
		return l.Errorf(path, "has keys: it takes %s", takes(into))
	}
	return l.Errorf(path, "is a list: it takes %s", takes(into))
}

func (l Lines) readMapping(path string, node *yaml.Node, into reflect.Value) error {
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := strings.TrimPrefix(path+"."+name(key.Value), ".")
		if l[at] != 0 {
			return fmt.Errorf("line %d: %s is there twice", key.Line, at)
		}
		l[at] = key.Line
		field := find(into, key)
		if !field.IsValid() {
			return l.Errorf(at, "is unknown: known here are %s", strings.Join(keys(into.Type()), ", "))
		}
		if err := l.read(at, value, field); err != nil {
			return err
		}
	}
	return nil
}

func (l Lines) readList(path string, node *yaml.Node, into reflect.Value) error {
	list := reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content))
	for i, item := range node.Content {
		if err := l.read(fmt.Sprintf("%s[%d]", path, i), item, list.Index(i)); err != nil {
			return err
		}
	}
	into.Set(list)
	return nil
}

func (l Lines) readScalar(path string, node *yaml.Node, into reflect.Value) error {
	if node.ShortTag() == "!!null" {
		return l.Errorf(path, "has no value: it takes %s", takes(into))
	}
	if self, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := self.UnmarshalText([]byte(node.Value)); err != nil {
			return l.Errorf(path, "is %q: %w", shorten(node.Value), err)
		}
		return nil
	}
	var err error
	switch into.Kind() {
	case reflect.String, reflect.Bool, reflect.Float64:
		err = node.Decode(into.Addr().Interface())
	case reflect.Int: // the decoder would cut off what is behind the point
		var n int64
		n, err = strconv.ParseInt(node.Value, 10, strconv.IntSize)
		into.SetInt(n)
	case reflect.Uint32, reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(node.Value, 10, into.Type().Bits())
		into.SetUint(n)
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return l.Errorf(path, "is %q: it takes %s", shorten(node.Value), takes(into))
	}
	return nil
}

// find is the field of a key; the zero Value if there is none.
func find(into reflect.Value, key *yaml.Node) reflect.Value {
	if key.Kind != yaml.ScalarNode || key.Value == "" {
		return reflect.Value{}
	}
	for i := range into.NumField() {
		if into.Type().Field(i).Anonymous {
			if field := find(into.Field(i), key); field.IsValid() {
				return field
			}
		} else if into.Type().Field(i).Tag.Get("yaml") == key.Value {
			return into.Field(i)
		}
	}
	return reflect.Value{}
}

func keys(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			names = append(names, keys(f.Type)...)
		} else {
			names = append(names, f.Tag.Get("yaml"))
		}
	}
	return names
}

// takes says what a field could be.
func takes(into reflect.Value) string {
	switch into.Kind() {
	case reflect.Struct:
		return "keys: " + strings.Join(keys(into.Type()), ", ")
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// longest is how much of a text errors show.
const longest = 60

// name is a key as it can be in a path.
func name(key string) string {
	key = shorten(key)
	if quoted := strconv.Quote(key); key == "" || quoted != `"`+key+`"` {
		return quoted
	}
	return key
}

func shorten(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

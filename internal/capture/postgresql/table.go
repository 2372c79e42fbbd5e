package postgresql

// maxName bounds the names that are remembered, in bytes; longer ones are not.
const maxName = 128

// table remembers what has a name. When it is full the oldest name is forgotten.
type table[T any] struct {
	unnamed T
	known   bool // unnamed is
	named   map[string]T
	inOrder []string // may hold dropped names
}

func (t *table[T]) get(name []byte) (T, bool) {
	if len(name) == 0 {
		return t.unnamed, t.known
	}
	v, ok := t.named[string(name)]
	return v, ok
}

// put remembers v, among at most so many.
func (t *table[T]) put(name []byte, v T, most int) {
	switch {
	case len(name) == 0:
		t.unnamed, t.known = v, true
		return
	case len(name) > maxName:
		return
	case t.named == nil:
		t.named = make(map[string]T)
	}
	if _, known := t.named[string(name)]; !known {
		if len(t.inOrder) == most {
			delete(t.named, t.inOrder[0])
			t.inOrder = append(t.inOrder[:0], t.inOrder[1:]...)
		}
		t.inOrder = append(t.inOrder, string(name))
	}
	t.named[string(name)] = v
}

func (t *table[T]) drop(name []byte) {
	if len(name) == 0 {
		*t = table[T]{named: t.named, inOrder: t.inOrder}
		return
	}
	delete(t.named, string(name))
}

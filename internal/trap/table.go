package trap

// table is a map with a bound: when it is full, keys that are not in it are not kept,
// and left counts how often one was turned away.
type table[K comparable, V any] struct {
	limit int
	rows  map[K]*V
	left  uint64
}

func newTable[K comparable, V any](limit int) table[K, V] {
	return table[K, V]{limit: limit, rows: map[K]*V{}}
}

// at is the row of a key, made when there is none; nil when the table is full.
func (t *table[K, V]) at(key K) *V {
	if row := t.rows[key]; row != nil {
		return row
	}
	if len(t.rows) >= t.limit {
		t.left++
		return nil
	}
	row := new(V)
	t.rows[key] = row
	return row
}

// recent is a set of the newest keys: when it is full the oldest one is forgotten.
type recent[K comparable] struct {
	rows map[K]struct{}
	ring []K
	next int
}

func newRecent[K comparable](limit int) recent[K] {
	return recent[K]{rows: map[K]struct{}{}, ring: make([]K, 0, limit)}
}

func (s *recent[K]) add(key K) {
	if s.has(key) {
		return
	}
	if len(s.ring) < cap(s.ring) {
		s.ring = append(s.ring, key)
	} else {
		delete(s.rows, s.ring[s.next])
		s.ring[s.next] = key
		s.next = (s.next + 1) % len(s.ring)
	}
	s.rows[key] = struct{}{}
}

func (s *recent[K]) has(key K) bool {
	if len(s.ring) == 0 {
		return false
	}
	_, ok := s.rows[key]
	return ok
}

// replace adds a key that is not in the set, and returns the one that made room for it.
func (s *recent[K]) replace(key K) (old K, full bool) {
	if full = len(s.ring) == cap(s.ring); full {
		old = s.ring[s.next]
	}
	s.add(key)
	return old, full
}

// most is the key that was counted most often; the least one of several.
func most[K comparable](t table[K, uint64], compare func(K, K) int) (key K, n uint64) {
	for k, row := range t.rows {
		if *row > n || *row == n && compare(k, key) < 0 {
			key, n = k, *row
		}
	}
	return key, n
}

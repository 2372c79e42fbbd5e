package flow

import "hash/maphash"

// leastBuckets is how many buckets a table begins with, a power of two.
const leastBuckets = 1 << 10

// table finds connections by key. Those of a bucket hang in a chain through themselves, so
// that finding one costs a bucket and the connection, which is needed anyway.
//
// The hash is seeded, since the keys come from the network: nobody can choose them so that
// they all share a bucket.
type table struct {
	buckets []*conn // a power of two
	count   int
	seed    [2]uint64
}

func newTable() table {
	return table{
		buckets: make([]*conn, leastBuckets),
		seed:    [2]uint64{maphash.Bytes(maphash.MakeSeed(), nil), maphash.Bytes(maphash.MakeSeed(), nil)},
	}
}

// bucket is the beginning of the chain that a key belongs to.
func (t *table) bucket(k *key) **conn {
	h := mix(k.aHigh^t.seed[0], k.aLow^t.seed[1])
	h = mix(h^k.bHigh, k.bLow^t.seed[0])
	h = mix(h, k.rest^t.seed[1])
	return &t.buckets[h&uint64(len(t.buckets)-1)]
}

// find returns nil if there is none.
func (t *table) find(k *key) *conn {
	c := *t.bucket(k)
	for c != nil && !c.key.is(k) {
		c = c.chained
	}
	return c
}

// add takes a connection whose key is not there.
func (t *table) add(c *conn) {
	if t.count == len(t.buckets) {
		t.grow()
	}
	t.count++
	t.hang(c)
}

func (t *table) hang(c *conn) {
	b := t.bucket(&c.key)
	c.chained, *b = *b, c
}

// remove takes out a connection that is there.
func (t *table) remove(c *conn) {
	at := t.bucket(&c.key)
	for *at != c {
		at = &(*at).chained
	}
	*at, c.chained = c.chained, nil
	t.count--
}

// grow doubles the buckets.
func (t *table) grow() {
	old := t.buckets
	t.buckets = make([]*conn, 2*len(old))
	for _, c := range old {
		for c != nil {
			next := c.chained
			t.hang(c)
			c = next
		}
	}
}

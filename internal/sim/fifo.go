package sim

// fifo is a queue in memory that is used again.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) first() *T { return &f.items[f.head] }

func (f *fifo[T]) push(item T) { f.items = append(f.items, item) }

// pop takes out the oldest. Moving what is left costs little: it happens when half of the
// memory is behind the head.
func (f *fifo[T]) pop() T {
	item := f.items[f.head]
	f.head++
	if f.head > len(f.items)/2 && f.head >= 64 {
		f.items = f.items[:copy(f.items, f.items[f.head:])]
		f.head = 0
	}
	return item
}

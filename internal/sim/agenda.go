package sim

import "container/heap"

// agenda is what is due at times that are no arrival and no departure, by time and then by
// order of entry.
type agenda struct {
	entries entries
	entered uint64
}

type entry struct {
	at    float64
	order uint64
	do    func()
}

// add enters what is to be done.
func (a *agenda) add(at float64, do func()) {
	a.entered++
	heap.Push(&a.entries, entry{at, a.entered, do})
}

// pop takes out what is due first.
func (a *agenda) pop() func() { return heap.Pop(&a.entries).(entry).do }

// entries implements [heap.Interface].
type entries []entry

func (e entries) Len() int { return len(e) }
func (e entries) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e entries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *entries) Push(x any)   { *e = append(*e, x.(entry)) }
func (e *entries) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = entry{}
	*e = (*e)[:last]
	return x
}

package promql

import (
	"maps"
	"strconv"
	"time"
)

// At is the source as it would have answered at that time, as far as the store remembers:
// readings are of windows that end then, and have the times of samples from before.
func (s *Source) At(t time.Time) *Source {
	past, client := *s, *s.client
	client.params = maps.Clone(client.params)
	client.params.Set("time", strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64))
	past.client = &client
	return &past
}

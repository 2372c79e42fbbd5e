package eds

import (
	"fmt"
	"strings"
	"sync"
)

const (
	// maxRemembered bounds what is remembered of lines logged once. Past it they
	// are forgotten, and may be logged again.
	maxRemembered = 10_000
	// maxText bounds each text of an Envoy that is kept or logged, in bytes.
	maxText = 1024
	// maxListed bounds the names in one line.
	maxListed = 10
)

// once remembers what was logged, so that an Envoy that tries again and again
// does not fill the log.
type once struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

// first is true the first time it gets a key.
func (o *once) first(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.seen[key]; ok {
		return false
	}
	if o.seen == nil || len(o.seen) >= maxRemembered {
		o.seen = map[string]struct{}{}
	}
	o.seen[key] = struct{}{}
	return true
}

// clip shortens a text of an Envoy.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// shorten lists names for one line of the log.
func shorten(names []string) string {
	if len(names) <= maxListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
}

package operator

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/apply/serviceentry"
	"taper.dev/taper/internal/apply/serviceentry/readback"
)

const (
	// readBackEvery is how often istiod is asked: its answer has every endpoint of the
	// mesh in it.
	readBackEvery = 30 * time.Second
	// readBackWithin bounds one such question.
	readBackWithin = 20 * time.Second
	// servedWithin is how long istiod may take to serve what was written, before it
	// counts as not served: two orders more than its usual debounce.
	servedWithin = 10 * time.Second
)

// served compares what istiod serves with what was written: written is not served
// when istiod cannot follow, or ignores the entry.
type served struct {
	reader *readback.Reader // nil when istiod is not to be asked
	tell   func(types.NamespacedName)
	logger *slog.Logger

	mu       sync.Mutex
	wanted   map[types.NamespacedName]expectation
	verdicts map[types.NamespacedName]string // what is wrong; empty when all is served
	failing  bool
}

// expectation is what istiod should serve for a policy, and since when.
type expectation struct {
	service readback.Service
	weights readback.Weights
	since   time.Time
}

func newServed(options *Options, tell func(types.NamespacedName), logger *slog.Logger) (*served, error) {
	s := &served{tell: tell, logger: logger, wanted: map[types.NamespacedName]expectation{}, verdicts: map[types.NamespacedName]string{}}
	if options.IstiodURL == "" {
		return s, nil
	}
	var token func(context.Context) (string, error)
	if file := options.IstiodTokenFile; file != "" {
		token = func(context.Context) (string, error) {
			text, err := os.ReadFile(file) // each time: such tokens rotate
			return string(text), err
		}
	}
	var err error
	s.reader, err = readback.New(options.IstiodURL, token)
	return s, err
}

// expect notes what a policy's entries say.
func (s *served) expect(policy types.NamespacedName, entries []serviceentry.Entry, now time.Time) {
	if s.reader == nil || len(entries) == 0 {
		return
	}
	e := expectation{
		service: readback.Service{Namespace: entries[0].Namespace, Host: entries[0].Host},
		weights: make(readback.Weights, len(entries)), since: now,
	}
	for _, entry := range entries {
		weights := make(map[string]uint32, len(entry.Endpoints))
		for _, endpoint := range entry.Endpoints {
			weights[endpoint.Address] = endpoint.Weight
		}
		e.weights[entry.Port.Name] = weights
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.wanted[policy]; ok && sameWeights(before.weights, e.weights) {
		e.since = before.since
	}
	s.wanted[policy] = e
}

func (s *served) forget(policy types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wanted, policy)
	delete(s.verdicts, policy)
}

// verdict is what to say of weights that were written.
func (s *served) verdict(policy types.NamespacedName) applied {
	s.mu.Lock()
	defer s.mu.Unlock()
	wrong, known := s.verdicts[policy]
	switch {
	case !known:
		return applied{metav1.ConditionTrue, "Written", "the mesh was given the decided weights", nil}
	case wrong != "":
		return applied{metav1.ConditionFalse, "NotServed", wrong, nil}
	}
	return applied{metav1.ConditionTrue, "Served", "istiod serves the decided weights", nil}
}

// Start implements the manager's Runnable.
func (s *served) Start(ctx context.Context) error {
	if s.reader == nil {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(readBackEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.check(ctx)
		}
	}
}

// check asks istiod once. When it does not answer, what was last seen stays.
func (s *served) check(ctx context.Context) {
	s.mu.Lock()
	wanted := maps.Clone(s.wanted)
	s.mu.Unlock()
	if len(wanted) == 0 {
		return
	}
	services := make([]readback.Service, 0, len(wanted))
	for _, e := range wanted {
		services = append(services, e.service)
	}
	within, cancel := context.WithTimeout(ctx, readBackWithin)
	defer cancel()
	asked := time.Now()
	got, err := s.reader.Read(within, services...)
	if err != nil {
		s.note(ctx, err)
		return
	}
	s.note(ctx, nil)
	for _, policy := range slices.SortedFunc(maps.Keys(wanted), compareNames) {
		e := wanted[policy]
		if asked.Sub(e.since) < servedWithin {
			continue // it is on its way
		}
		if s.conclude(policy, e, got[e.service]) {
			s.tell(policy)
		}
	}
}

// conclude compares, and tells whether the verdict has changed.
func (s *served) conclude(policy types.NamespacedName, e expectation, got readback.Weights) bool {
	wrong := difference(e.weights, got)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.wanted[policy]; !ok || !now.since.Equal(e.since) {
		return false // it is about weights of before
	}
	before, known := s.verdicts[policy]
	s.verdicts[policy] = wrong
	return !known || before != wrong
}

// note logs that istiod cannot be asked when that begins, and when it ends.
func (s *served) note(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil && !s.failing:
		s.failing = true
		s.logger.Warn("what istiod serves cannot be checked", "error", err)
	case err == nil && s.failing:
		s.failing = false
		s.logger.Info("what istiod serves can be checked again")
	}
}

// difference says what istiod serves otherwise than wanted; empty when nothing.
func difference(want, got readback.Weights) string {
	wrong, example := 0, ""
	for port, weights := range want {
		for address, weight := range weights {
			if served := got[port][address]; served != weight {
				wrong++
				if text := fmt.Sprintf("%s of port %s has weight %d and should have %d", address, port, served, weight); example == "" || text < example {
					example = text
				}
			}
		}
	}
	if wrong == 0 {
		return ""
	}
	return fmt.Sprintf("istiod serves %d endpoints otherwise than written, such as %s", wrong, example)
}

func sameWeights(a, b readback.Weights) bool {
	return maps.EqualFunc(a, b, func(x, y map[string]uint32) bool { return maps.Equal(x, y) })
}

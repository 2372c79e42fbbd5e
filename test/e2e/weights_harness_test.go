//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"taper.dev/taper/internal/lab/proxy"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

// weightLog is what Envoys have balanced by: of each, the weights of those endpoints
// that get requests, at each change.
type weightLog struct {
	mu     sync.Mutex
	looked []time.Time // when the last look that succeeded began
	states [][]weightState
}

type weightState struct {
	at      time.Time // when it was seen first
	weights model.Weights
}

// lookEvery is how often the Envoys are asked for their weights: a fraction of the
// latencies that are measured.
const lookEvery = 20 * time.Millisecond

// watchWeights follows a cluster of the Envoys until the test ends.
func watchWeights(t *testing.T, envoys *proxy.Group, cluster string) *weightLog {
	t.Helper()
	admins := envoys.Admins()
	l := &weightLog{looked: make([]time.Time, len(admins)), states: make([][]weightState, len(admins))}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	for i, admin := range admins {
		watching.Go(func() {
			for ctx.Err() == nil {
				begun := time.Now()
				if text, err := fetch(ctx, admin+"/clusters"); err == nil {
					l.note(i, begun, readyWeights(text, cluster))
				}
				time.Sleep(time.Until(begun.Add(lookEvery)))
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return l
}

// readyWeights reads Envoy's list of a cluster's endpoints in its text form, which is
// much cheaper than JSON, and leaves out those that it knows not to be ready.
func readyWeights(text, cluster string) model.Weights {
	weights, sick := model.Weights{}, map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		line, ours := strings.CutPrefix(line, cluster+"::")
		fields := strings.Split(line, "::")
		if !ours || len(fields) != 3 {
			continue
		}
		switch n, err := strconv.ParseUint(fields[2], 10, 32); {
		case fields[1] == "weight" && err == nil:
			weights[fields[0]] = uint32(n)
		case fields[1] == "health_flags" && fields[2] != "healthy":
			sick[fields[0]] = true
		}
	}
	maps.DeleteFunc(weights, func(address string, _ uint32) bool { return sick[address] })
	return weights
}

func (l *weightLog) note(envoy int, begun time.Time, weights model.Weights) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked[envoy] = begun
	states := l.states[envoy]
	if len(states) == 0 || !maps.Equal(states[len(states)-1].weights, weights) {
		l.states[envoy] = append(states, weightState{time.Now(), weights})
	}
}

// gone waits until no Envoy gives requests to an address, and returns how long after
// start the last of them was first seen so.
func (l *weightLog) gone(address string, start time.Time, within time.Duration) (took time.Duration, err error) {
	err = cluster.Eventually(context.Background(), within, "no Envoy has "+address, func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		took = 0
		for i, states := range l.states {
			since := len(states)
			for since > 0 && states[since-1].weights[address] == 0 {
				since--
			}
			if since == len(states) || !l.looked[i].After(start) {
				return fmt.Errorf("Envoy %d has it", i)
			}
			took = max(took, states[since].at.Sub(start))
		}
		return nil
	})
	return took, err
}

// everywhere waits until every Envoy gives requests to an address.
func (l *weightLog) everywhere(address string) error {
	return cluster.Eventually(context.Background(), withinDefault, "every Envoy has "+address, func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, states := range l.states {
			if len(states) == 0 || states[len(states)-1].weights[address] == 0 {
				return fmt.Errorf("Envoy %d does not", i)
			}
		}
		return nil
	})
}

// each calls a function with each state that an Envoy was in between two times, the one
// at the first of them included.
func (l *weightLog) each(from, to time.Time, f func(envoy int, s weightState)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, states := range l.states {
		for j, s := range states {
			if ended := j+1 < len(states) && !states[j+1].at.After(from); !ended && s.at.Before(to) {
				f(i, s)
			}
		}
	}
}

// absent fails unless no Envoy gave requests to an address between two times.
func (l *weightLog) absent(address string, from, to time.Time) (err error) {
	l.each(from, to, func(i int, s weightState) {
		if s.weights[address] != 0 {
			err = fmt.Errorf("Envoy %d had %s again %v after it was gone", i, address, s.at.Sub(from).Round(time.Millisecond))
		}
	})
	return err
}

// part is what an endpoint has of its fair share: that which replicas alike, it among
// them, would each have if they had what they have in even parts.
func part(w model.Weights, address string, alike []string) float64 {
	var sum, n float64
	for _, a := range alike {
		if w[a] > 0 {
			sum, n = sum+float64(w[a]), n+1
		}
	}
	return float64(w[address]) * n / sum
}

// steady wants endpoints to have kept their shares among each other since a time, but
// for a factor, in every Envoy and at every moment. It returns the largest factor seen.
func (l *weightLog) steady(addresses []string, from time.Time, most float64) (worst float64, err error) {
	l.mu.Lock()
	started := make([]model.Weights, len(l.states))
	l.mu.Unlock()
	worst = 1
	var wrong []error
	l.each(from, time.Now(), func(i int, s weightState) {
		kept := maps.Clone(s.weights)
		maps.DeleteFunc(kept, func(address string, _ uint32) bool { return !slices.Contains(addresses, address) })
		if len(kept) != len(addresses) {
			wrong = append(wrong, fmt.Errorf("Envoy %d, %v after the start: some of %v are missing: %v", i, s.at.Sub(from).Round(time.Millisecond), addresses, s.weights))
			return
		}
		if started[i] == nil {
			started[i] = kept
		}
		was, is := started[i].Shares(), kept.Shares()
		for _, a := range addresses {
			factor := max(is[a]/was[a], was[a]/is[a])
			worst = max(worst, factor)
			if factor > most {
				wrong = append(wrong, fmt.Errorf("Envoy %d, %v after the start: %s changed its share by a factor of %.2f: from %v to %v",
					i, s.at.Sub(from).Round(time.Millisecond), a, factor, started[i], s.weights))
			}
		}
	})
	return worst, errors.Join(wrong[:min(3, len(wrong))]...)
}

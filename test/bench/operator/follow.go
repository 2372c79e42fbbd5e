package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"taper.dev/taper/internal/apply/serviceentry"
)

// follower watches EndpointSlices and ServiceEntries as any client does, and times
// how long an entry takes to follow its service.
type follower struct {
	mu sync.Mutex
	// sizes are the numbers of endpoints in the entries, by service.
	sizes map[string]int
	// pending has at most one change of each service, so that an entry which shows it
	// was written for it.
	pending map[string]*change
	done    []*change
}

// change is one endpoint that comes or goes.
type change struct {
	address string
	joins   bool
	// sent is before the EndpointSlice is written, event when the watch shows that,
	// and written when the watch shows an entry that says so too.
	sent, event, written time.Time
}

// latency is from event to write. A write that was seen before the event, which is
// on another connection, counts from when the change was sent.
func (c *change) latency() time.Duration {
	if c.event.IsZero() || c.event.After(c.written) {
		return c.written.Sub(c.sent)
	}
	return c.written.Sub(c.event)
}

func newFollower() *follower {
	return &follower{sizes: map[string]int{}, pending: map[string]*change{}}
}

// expect announces a change that is about to be made. It returns false, and expects
// nothing, while the last one of the service is pending.
func (f *follower) expect(service string, c *change) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pending[service] != nil {
		return false
	}
	c.sent = time.Now()
	f.pending[service] = c
	return true
}

// left are the numbers of changes that have been written, and that have not.
func (f *follower) left() (done, pending int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.done), len(f.pending)
}

// latencies are those of the changes that have been written, shortest first.
func (f *follower) latencies() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]time.Duration, len(f.done))
	for i, c := range f.done {
		all[i] = c.latency()
	}
	slices.Sort(all)
	return all
}

// complete is nil when each of n services has an entry with all of its endpoints.
func (f *follower) complete(services, endpoints int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	full := 0
	for _, size := range f.sizes {
		if size == endpoints {
			full++
		}
	}
	if full != services {
		return fmt.Errorf("%d of %d services have an entry with all endpoints", full, services)
	}
	return nil
}

// sliceSeen is told of each EndpointSlice event.
func (f *follower) sliceSeen(service string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.pending[service]; c != nil && c.event.IsZero() {
		c.event = at
	}
}

// entrySeen is told of each ServiceEntry event.
func (f *follower) entrySeen(service string, endpoints []serviceentry.WorkloadEntry, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sizes[service] = len(endpoints)
	c := f.pending[service]
	if c == nil {
		return
	}
	there := slices.ContainsFunc(endpoints, func(e serviceentry.WorkloadEntry) bool { return e.Address == c.address })
	if there == c.joins {
		c.written = at
		f.done = append(f.done, c)
		delete(f.pending, service)
	}
}

// fromNow starts a watch with what the API server has in memory. The newest state
// takes etcd 3.4.25 or later.
var fromNow = metav1.ListOptions{ResourceVersion: "0"}

// run watches until the context ends. A watch that ends before is an error: what
// happens meanwhile would have no time.
func (f *follower) run(ctx context.Context, config *rest.Config, transport *http.Client) error {
	meta, err := metadata.NewForConfigAndClient(config, transport)
	if err != nil {
		return err
	}
	mesh, err := serviceentry.NewClient(config, transport)
	if err != nil {
		return err
	}
	slices, err := meta.Resource(discoveryv1.SchemeGroupVersion.WithResource("endpointslices")).Watch(ctx, fromNow)
	if err != nil {
		return fmt.Errorf("watching EndpointSlices: %w", err)
	}
	defer slices.Stop()
	entries, err := cache.NewListWatchFromClient(mesh, "serviceentries", "", fields.Everything()).WatchWithContext(ctx, fromNow)
	if err != nil {
		return fmt.Errorf("watching ServiceEntries: %w", err)
	}
	defer entries.Stop()
	ended := make(chan error, 2)
	go func() { ended <- f.drain(slices.ResultChan()) }()
	go func() { ended <- f.drain(entries.ResultChan()) }()
	err = <-ended
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (f *follower) drain(events <-chan watch.Event) error {
	for e := range events {
		now := time.Now()
		switch o := e.Object.(type) {
		case *metav1.PartialObjectMetadata:
			f.sliceSeen(o.Namespace+"/"+o.Labels[discoveryv1.LabelServiceName], now)
		case *serviceentry.ServiceEntry:
			service, _, _ := strings.Cut(o.Spec.Hosts[0], ".")
			f.entrySeen(o.Namespace+"/"+service, o.Spec.Endpoints, now)
		case *metav1.Status:
			return fmt.Errorf("a watch ended: %s", o.Message)
		}
	}
	return errors.New("a watch ended")
}

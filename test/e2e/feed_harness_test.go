//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

const (
	// shortInterval is that of policies whose samples are pushed; a sample is some two
	// seconds old when it is decided by.
	shortInterval = 2 * time.Second
	// pushEvery is the time between two samples of a pod.
	pushEvery = 500 * time.Millisecond
)

// database is a VictoriaMetrics that scrapes nothing: samples are pushed to it, as an
// agent does. It can be killed and started again with its data.
type database struct {
	URL string

	spec   process.Spec
	server *process.Process
	away   atomic.Bool // while it is, nobody can push to it
}

func startDatabase(t *testing.T, c *cluster.Cluster, name string) *database {
	t.Helper()
	need(t, "victoria-metrics")
	binary, err := process.Lookup("victoria-metrics", "run \"tools/fetch.sh victoria-metrics\"")
	must(t, err)
	address := freeAddress(t)
	d := &database{URL: "http://" + address, spec: process.Spec{
		Name: name, Path: binary, Log: filepath.Join(c.Dir(), name+".log"),
		Args: []string{
			"-storageDataPath=" + filepath.Join(t.TempDir(), "data"), "-httpListenAddr=" + address, "-retentionPeriod=1d",
			// The newest samples are hidden for 30 s by default; it takes no less than 1 s.
			"-search.latencyOffset=1s", "-memory.allowedBytes=64MB", "-loggerLevel=WARN",
		},
	}}
	d.start(t)
	t.Cleanup(func() { d.server.Stop(5 * time.Second) })
	return d
}

func (d *database) start(t *testing.T) {
	t.Helper()
	server, err := process.Start(d.spec)
	must(t, err)
	d.server = server
	must(t, process.Await(t.Context(), server, func(ctx context.Context) error {
		_, err := fetch(ctx, d.URL+"/health")
		return err
	}, withinDefault))
	d.away.Store(false)
}

// kill ends the server as a crash does.
func (d *database) kill(t *testing.T) {
	t.Helper()
	d.away.Store(true)
	must(t, syscall.Kill(d.server.PID(), syscall.SIGKILL))
	<-d.server.Done()
}

// feed pushes to databases what pods use, as cAdvisor and Istio count it. It is exact:
// each sample has the time that it is of.
type feed struct {
	t         *testing.T
	databases []*database

	mu     sync.Mutex
	at     time.Time
	pods   map[client.ObjectKey]*counted
	gauges map[string]float64
}

// counted is what a pod has used so far, and goes on to use.
type counted struct {
	rate
	cpu, served float64
	silent      bool // nobody measures it
}

// startFeed pushes until the test ends.
func startFeed(t *testing.T, databases ...*database) *feed {
	f := &feed{t: t, databases: databases, at: time.Now(), pods: map[client.ObjectKey]*counted{}, gauges: map[string]float64{}}
	ctx, cancel := context.WithCancel(t.Context())
	var pushing sync.WaitGroup
	pushing.Go(func() {
		tick := time.NewTicker(pushEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f.push(ctx)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		pushing.Wait()
	})
	return f
}

// use says what a pod uses from now on.
func (f *feed) use(pod *corev1.Pod, r rate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance()
	key := client.ObjectKeyFromObject(pod)
	if f.pods[key] == nil {
		f.pods[key] = &counted{}
	}
	f.pods[key].rate = r
}

// silence has pods measured or not; they go on to use what they do.
func (f *feed) silence(silent bool, pods ...*corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pod := range pods {
		f.pods[client.ObjectKeyFromObject(pod)].silent = silent
	}
}

// gauge pushes another series from now on; forget ends it.
func (f *feed) gauge(series string, value float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gauges[series] = value
}

func (f *feed) forget(series string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.gauges, series)
}

// advance counts what was used until now; the lock is held.
func (f *feed) advance() {
	now := time.Now()
	for _, c := range f.pods {
		c.cpu += c.cores * now.Sub(f.at).Seconds()
		c.served += c.requests * now.Sub(f.at).Seconds()
	}
	f.at = now
}

// text is a sample of all, in the exposition format.
func (f *feed) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance()
	var text strings.Builder
	ms := f.at.UnixMilli()
	for pod, c := range f.pods {
		if c.silent {
			continue
		}
		fmt.Fprintf(&text, "container_cpu_usage_seconds_total{namespace=%q,pod=%q,container=\"app\",image=\"app\"} %.9f %d\n", pod.Namespace, pod.Name, c.cpu, ms)
		fmt.Fprintf(&text, "istio_requests_total{namespace=%q,pod=%q,reporter=\"destination\",response_code=\"200\"} %.9f %d\n", pod.Namespace, pod.Name, c.served, ms)
	}
	for series, value := range f.gauges {
		fmt.Fprintf(&text, "%s %g %d\n", series, value, ms)
	}
	return text.String()
}

func (f *feed) push(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text := f.text()
	for _, d := range f.databases {
		if err := post(ctx, d.URL+"/api/v1/import/prometheus", text); err != nil && !d.away.Load() && !errors.Is(ctx.Err(), context.Canceled) {
			f.t.Errorf("pushing samples to %s: %v", d.spec.Name, err)
		}
	}
}

func post(ctx context.Context, url, text string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return errors.New(resp.Status)
	}
	return nil
}

// awaitSamples returns when a database answers queries with what was pushed. It does
// not ask for what the policies will: the store remembers for ten seconds that a query
// has found nothing.
func (f *feed) awaitSamples(within time.Duration) {
	f.t.Helper()
	for _, d := range f.databases {
		eventually(f.t, within, "samples in "+d.spec.Name, func(ctx context.Context) error {
			if _, err := fetch(ctx, d.URL+"/internal/force_flush"); err != nil {
				return err
			}
			text, err := fetch(ctx, d.URL+"/api/v1/series/count")
			if err == nil && strings.Contains(text, "[0]") {
				err = errors.New("there are none")
			}
			return err
		})
	}
}

// track is every assignment of weights that the mesh was told, in order.
type track struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	at      time.Time
	weights model.Weights
}

// track follows a cluster's weights until the test ends.
func (s *sidecar) track(t *testing.T, cluster string) *track {
	t.Helper()
	k := &track{}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		err := s.follow(ctx, cluster, func(a *endpointv3.ClusterLoadAssignment) bool {
			weights, err := weightsOf(a)
			if err != nil {
				t.Error(err)
				return true
			}
			k.add(weights)
			return false
		})
		if ctx.Err() == nil {
			t.Errorf("following %s: %v", cluster, err)
		}
	})
	t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	return k
}

func (k *track) add(w model.Weights) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.steps); n == 0 || !maps.Equal(k.steps[n-1].weights, w) {
		k.steps = append(k.steps, step{time.Now(), w})
	}
}

// now is what the mesh was told last.
func (k *track) now() model.Weights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.steps) == 0 {
		return nil
	}
	return k.steps[len(k.steps)-1].weights
}

// during is what was in force at the beginning of a stretch of time, and what followed.
func (k *track) during(from, to time.Time) []step {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []step
	for _, s := range k.steps {
		if !s.at.After(from) {
			list = append(list[:0], s)
		} else if !s.at.After(to) {
			list = append(list, s)
		}
	}
	return list
}

func (k *track) await(t *testing.T, within time.Duration, what string, check weightsCheck) {
	t.Helper()
	eventually(t, within, what, func(context.Context) error {
		now := k.now()
		if len(now) == 0 {
			return errors.New("nothing was told")
		}
		if err := check(now); err != nil {
			return fmt.Errorf("%v: %w", now, err)
		}
		return nil
	})
}

// ledger has every status that policies of the namespace have had.
type ledger struct {
	mu    sync.Mutex
	notes map[string][]note
}

type note struct {
	at     time.Time
	policy *v1alpha1.BalancePolicy
}

// startLedger keeps one until the test ends.
func startLedger(t *testing.T, c *cluster.Cluster) *ledger {
	t.Helper()
	l := &ledger{notes: map[string][]note{}}
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			// A server that has just learnt of the type ends its first watches.
			if err := l.watch(ctx, c); err != nil && ctx.Err() == nil {
				t.Errorf("watching policies: %v", err)
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	return l
}

// watch notes what changes until the watch ends. It begins with what is there.
func (l *ledger) watch(ctx context.Context, c *cluster.Cluster) error {
	watch, err := c.Client().Watch(ctx, &v1alpha1.BalancePolicyList{}, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if policy, ok := event.Object.(*v1alpha1.BalancePolicy); ok {
			l.mu.Lock()
			l.notes[policy.Name] = append(l.notes[policy.Name], note{time.Now(), policy})
			l.mu.Unlock()
		}
	}
	return nil
}

// await waits until a policy has a condition with this status and reason, any reason
// when it is empty, and a text in its message, in a status that was written after a
// time, and returns the policy.
func (l *ledger) await(t *testing.T, within time.Duration, since time.Time, name, kind string, status metav1.ConditionStatus, reason, says string) note {
	t.Helper()
	var found note
	eventually(t, within, fmt.Sprintf("policy %s has %s=%s %s %q", name, kind, status, reason, says), func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		last := errors.New("it has no status")
		for _, n := range l.notes[name] {
			c := apimeta.FindStatusCondition(n.policy.Status.Conditions, kind)
			if c == nil {
				continue
			}
			last = fmt.Errorf("it was %s %s %q", c.Status, c.Reason, c.Message)
			if !n.at.Before(since) && c.Status == status && (reason == "" || c.Reason == reason) && strings.Contains(c.Message, says) {
				found = n
				return nil
			}
		}
		return last
	})
	return found
}

// reasons are those of a condition one after the other, from a time on; the first is
// the one that it had then.
func (l *ledger) reasons(name, kind string, from time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for _, n := range l.notes[name] {
		c := apimeta.FindStatusCondition(n.policy.Status.Conditions, kind)
		switch {
		case c == nil:
		case n.at.Before(from):
			list = []string{c.Reason}
		case len(list) == 0 || list[len(list)-1] != c.Reason:
			list = append(list, c.Reason)
		}
	}
	return list
}

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

// leads tells whether a replica acts.
func (p *operatorProcess) leads(ctx context.Context) bool {
	text, err := fetch(ctx, p.URL+"/metrics")
	return err == nil && strings.Contains(text, "\ntaper_leader 1\n")
}

// awaitLeader returns the one of the replicas that acts, and the others.
func awaitLeader(t *testing.T, replicas []*operatorProcess) (leader *operatorProcess, standby []*operatorProcess) {
	t.Helper()
	eventually(t, withinDefault, "one replica leads", func(ctx context.Context) error {
		i := slices.IndexFunc(replicas, func(p *operatorProcess) bool { return p.leads(ctx) })
		if i < 0 {
			return errors.New("none does")
		}
		leader = replicas[i]
		standby = slices.Delete(slices.Clone(replicas), i, i+1)
		return nil
	})
	return leader, standby
}

// noJumps fails the test if the shares of endpoints that stayed have jumped.
func noJumps(t *testing.T, o *observer, from time.Time) {
	t.Helper()
	var before []model.Weights
	for _, s := range o.between(from, time.Now()) {
		for i, w := range s.weights {
			if before != nil {
				if list := jumps(before[i], w); len(list) > 0 {
					t.Errorf("Envoy %d, %s after the start: shares jumped: %v", i, s.at.Sub(from).Round(time.Millisecond), list)
					return
				}
			}
			if len(w) == 0 {
				t.Errorf("Envoy %d has no endpoints %s after the start", i, s.at.Sub(from).Round(time.Millisecond))
				return
			}
		}
		before = s.weights
	}
}

// A leader that is killed while an endpoint leaves: another replica takes over and
// has the endpoint out of every Envoy within five seconds, without any other weight
// moving for it. A leader that ends in order hands over faster.
func TestLeadersThatEnd(t *testing.T) {
	const kills = 5
	b := startBed(t, 2, members(replicas(8)...))
	b.startLoad(200)
	var running []*operatorProcess
	start := func() {
		running = append(running, startOperator(t, b.Cluster, fmt.Sprintf("operator-%d", len(running)+1), cluster.Admin))
	}
	start()
	start()
	b.enforce()
	o := b.observe()
	alive := running

	end := func(pod *corev1.Pod, how func(*operatorProcess)) time.Duration {
		t.Helper()
		leader, standby := awaitLeader(t, alive)
		if len(standby) != 1 || standby[0].leads(t.Context()) {
			t.Fatal("want one leader and one that stands by")
		}
		began := time.Now()
		how(leader)
		must(t, b.setTerminating(t.Context(), b.slice, pod, true))
		removed := time.Now()
		took, ok := o.since(removed, 30*time.Second, lacks(address(pod)))
		if !ok {
			t.Fatalf("%s is still there after %s", address(pod), took)
		}
		must(t, b.setTerminating(t.Context(), b.slice, pod, false))
		if _, ok := o.since(time.Now(), 10*time.Second, has(address(pod))); !ok {
			t.Fatalf("%s did not come back", address(pod))
		}
		noJumps(t, o, began)
		start()
		alive = []*operatorProcess{standby[0], running[len(running)-1]}
		return took
	}

	var longest time.Duration
	for i := range kills {
		took := end(b.pods[1+i], func(p *operatorProcess) { must(t, syscall.Kill(p.PID(), syscall.SIGKILL)) })
		t.Logf("killed: the endpoint is gone after %s", took.Round(time.Millisecond))
		longest = max(longest, took)
	}
	if longest > 5*time.Second {
		t.Errorf("the longest took %s, want at most 5 s", longest)
	}
	took := end(b.pods[7], func(p *operatorProcess) { p.Stop(10 * time.Second) })
	t.Logf("ended in order: the endpoint is gone after %s", took.Round(time.Millisecond))
	if took > 3*time.Second {
		t.Errorf("a hand-over in order took %s; the lease was not given back", took)
	}
}

// While the API server is away nothing is written, and afterwards work goes on in
// the same process. istiod may go too: Envoys keep their weights.
func TestServersThatGoAway(t *testing.T) {
	b := startBed(t, 2, members(replicas(6)...))
	b.startLoad(200)
	operator := startOperator(t, b.Cluster, "operator", cluster.Admin)
	b.enforce()
	o := b.observe()

	t.Run("API server", func(t *testing.T) {
		began := time.Now()
		b.APIServer.Kill()
		time.Sleep(6 * time.Second) // twice the lease
		must(t, b.APIServer.Start(t.Context()))
		eventually(t, withinDefault, "the operator leads again", func(ctx context.Context) error {
			if err := operator.Err(); err != nil {
				return cluster.Final(err)
			}
			if !operator.leads(ctx) {
				return errors.New("it does not")
			}
			return nil
		})
		t.Logf("leads again %s after the API server was killed", time.Since(began).Round(time.Millisecond))
		must(t, b.setTerminating(t.Context(), b.slice, b.pods[2], true))
		took, ok := o.since(time.Now(), withinDefault, lacks(address(b.pods[2])))
		t.Logf("an endpoint that leaves then is gone after %s", took.Round(time.Millisecond))
		if !ok {
			t.Errorf("%s is still there", address(b.pods[2]))
		}
		must(t, b.setTerminating(t.Context(), b.slice, b.pods[2], false))
		o.since(time.Now(), withinDefault, has(address(b.pods[2])))
		noJumps(t, o, began)
		awaitCondition(t, b.Cluster, "fib", v1alpha1.ConditionMetricsFresh, metav1.ConditionTrue, "")
	})

	t.Run("istiod", func(t *testing.T) {
		time.Sleep(2*interval + time.Second) // the endpoint that came back has its share by then
		began := time.Now()
		before := b.envoyWeights()
		b.istiod.Kill()
		time.Sleep(2 * time.Second)
		if during := b.envoyWeights(); !maps.Equal(during, before) {
			t.Errorf("without istiod the weights became %v, they were %v", during, before)
		}
		must(t, b.istiod.Start(t.Context()))
		must(t, b.setTerminating(t.Context(), b.slice, b.pods[3], true))
		if took, ok := o.since(time.Now(), withinDefault, lacks(address(b.pods[3]))); !ok {
			t.Errorf("%s is still there %s after it left: the Envoys do not follow the new istiod", address(b.pods[3]), took)
		}
		b.awaitEnvoys(withinDefault, "weights are still in force", func(w model.Weights) error {
			if len(w) != 5 || slices.Max(slices.Collect(maps.Values(w))) < 10 {
				return fmt.Errorf("%d endpoints", len(w))
			}
			return nil
		})
		noJumps(t, o, began)
	})
}

package operator

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/operator/journal"
	"taper.dev/taper/internal/operator/metrics"
)

// reporting is a reconciler that reports of one policy, at a time that the test sets.
type reporting struct {
	*reconciler
	t      *testing.T
	st     state
	now    time.Time
	writes int
	fails  error
	events *events.FakeRecorder
}

func newReporting(t *testing.T) *reporting {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	r := &reporting{t: t, now: noon, events: events.NewFakeRecorder(100)}
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.BalancePolicy{}).WithObjects(enforcing()).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if r.fails != nil {
				return r.fails
			}
			r.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
	book := journal.New()
	r.reconciler = &reconciler{
		client: api, journal: book, events: r.events, logger: slog.New(slog.DiscardHandler), now: func() time.Time { return r.now },
		metrics: metrics.New(prometheus.NewRegistry(), book, metrics.Options{Leading: func() bool { return true }}),
		pace:    &pace{every: statusEvery, atOnce: statusesAtOnce},
	}
	return r
}

// after lets time pass, reports of these endpoints, with samples or without, and tells
// how many writes and events that made.
func (r *reporting) after(d time.Duration, sampled bool, endpoints []model.Endpoint) (writes, told int) {
	r.t.Helper()
	r.now = r.now.Add(d)
	var policy v1alpha1.BalancePolicy
	if err := r.client.Get(r.t.Context(), client.ObjectKeyFromObject(enforcing()), &policy); err != nil {
		r.t.Fatal(err)
	}
	before := r.writes
	in := balance.Input{Now: r.now, Endpoints: endpoints, Current: r.st.current(), Memory: r.st.memory, Policy: balance.DefaultPolicy(30 * time.Second)}
	if sampled {
		r.st.collect(r.now, nil)
		in.Snapshot = model.Snapshot{}
		for _, e := range endpoints {
			in.Snapshot[e.Address] = model.Sample{CPU: model.Reading{Value: 0.2, At: r.now}, Requests: model.Reading{Value: 10, At: r.now}}
		}
	}
	r.st.mode = v1alpha1.Enforce
	r.st.accept(balance.Decide(in), in)
	r.st.written(r.now)
	written := applied{metav1.ConditionTrue, "Written", "written", []string{"taper-fib.http"}}
	seen := &view{service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "fib"}}, endpoints: endpoints}
	err := r.report(r.t.Context(), &policy, &r.st, outcome{seen: seen, applied: written, decided: true})
	if !errors.Is(err, r.fails) {
		r.t.Fatal(err)
	}
	for told = 0; len(r.events.Events) > 0; told++ {
		<-r.events.Events
	}
	return r.writes - before, told
}

// Endpoints that come and go make no events, and one status for all that did so in a
// while.
func TestMembershipIsReportedTogether(t *testing.T) {
	t.Parallel()
	r := newReporting(t)
	endpoints, _ := measured(noon, 1, 1, 1, 1, 1, 1)
	if writes, told := r.after(0, true, endpoints); writes != 1 || told != 2 {
		t.Fatalf("the first report made %d writes and %d events, want 1 and 2: it is carried out, and written", writes, told)
	}
	r.after(time.Minute, true, endpoints) // weights have come to rest
	for i := range 5 {
		if writes, told := r.after(2*time.Second, false, endpoints[:5-i%2]); writes != 0 || told != 0 {
			t.Errorf("change %d made %d writes and %d events at once", i, writes, told)
		}
		if again := r.untilDue(&r.st); again <= 0 || again > settleWithin {
			t.Errorf("change %d: the policy is looked at again after %s", i, again)
		}
	}
	if writes, told := r.after(r.untilDue(&r.st), false, endpoints[:4]); writes != 1 || told != 0 {
		t.Errorf("when it is due there are %d writes and %d events, want 1 and 0", writes, told)
	}
	if again := r.untilDue(&r.st); again != 0 {
		t.Errorf("with nothing more to tell, the policy is looked at again after %s", again)
	}
	if writes, _ := r.after(time.Second, false, endpoints[:4]); writes != 0 {
		t.Error("a status was written for nothing")
	}
}

// A status that could not be written is written with the next try, and told of then.
func TestAStatusIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newReporting(t)
	endpoints, _ := measured(noon, 1, 1, 1)
	r.fails = errors.New("the API server is away")
	if writes, told := r.after(0, true, endpoints); writes != 0 || told != 0 {
		t.Errorf("%d writes and %d events without an API server", writes, told)
	}
	r.fails = nil
	if writes, told := r.after(time.Second, false, endpoints); writes != 1 || told != 2 {
		t.Errorf("%d writes and %d events after it is back, want 1 and 2", writes, told)
	}
}

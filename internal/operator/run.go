package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/apply/serviceentry"
	"taper.dev/taper/internal/operator/journal"
	"taper.dev/taper/internal/operator/membership"
	"taper.dev/taper/internal/operator/metrics"
	"taper.dev/taper/internal/operator/page"
	"taper.dev/taper/internal/source/resourcemetrics"
)

// errNoDefinition says that the type of policies was not installed.
var errNoDefinition = errors.New("the cluster has no BalancePolicies: install their definition first, which is in config/crd and in the chart")

// newTermAfter is the pause before a replica that lost its leadership stands by again.
const newTermAfter = time.Second

// operator is what outlives a term of leadership.
type operator struct {
	options    Options
	config     *rest.Config
	scheme     *runtime.Scheme
	journal    *journal.Journal
	metrics    *metrics.Metrics
	leading    atomic.Bool
	connected  atomic.Bool // there was a term already
	givingBack bool
	logger     *slog.Logger
}

// Run runs the operator until the context ends. A replica that loses its leadership,
// because the API server was away for longer than the lease, stands by again, however
// often it takes: it does not end, so that nobody has to restart it. It fails only
// when it could not reach the API server in the first place.
func Run(ctx context.Context, config *rest.Config, options Options, logger *slog.Logger) error {
	op, err := newOperator(config, options, logger)
	if err != nil {
		return err
	}
	for {
		err := op.term(ctx, nil)
		op.leading.Store(false)
		// Another replica decides now, and forgets what is deleted meanwhile.
		op.journal.Reset()
		op.metrics.Reset()
		if ctx.Err() != nil || err == nil {
			return nil
		}
		if !op.connected.Load() {
			return err // it has never worked: somebody has to look
		}
		logger.Warn("not leading any more; standing by", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(newTermAfter):
		}
	}
}

func newOperator(config *rest.Config, options Options, logger *slog.Logger) (*operator, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	// The API server protects itself, by priority and fairness; a limit here would
	// only delay what is urgent.
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(func(t http.RoundTripper) http.RoundTripper { return patient{t} })
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	klog.SetSlogLogger(logger)
	op := &operator{options: options, config: config, scheme: scheme, journal: journal.New(), logger: logger}
	op.metrics = metrics.New(ctrlmetrics.Registry, op.journal, metrics.Options{
		Version: options.Version, Leading: op.leading.Load, Endpoints: options.EndpointMetrics,
	})
	return op, nil
}

// term runs the operator until it loses its leadership, or the context ends. With
// started, it is told the reconciler once this replica leads.
func (op *operator) term(ctx context.Context, led func(context.Context, *reconciler)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mgr, err := ctrl.NewManager(op.config, op.managerOptions())
	if apimeta.IsNoMatchError(err) { // of the types that the cache was told of, only ours can be missing
		return errNoDefinition
	}
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	r, err := op.reconciler(mgr)
	if err != nil {
		return err
	}
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := r.watchAll(mgr); err != nil {
		return err
	}
	for _, runnable := range []interface{ Start(context.Context) error }{r.podIndex, r.nodes, r.entries, r.collect, r.served} {
		if err := mgr.Add(runnable); err != nil {
			return err
		}
	}
	if err := addProbes(mgr, r); err != nil {
		return err
	}
	var telling sync.WaitGroup
	telling.Go(func() {
		select {
		case <-mgr.Elected():
			op.leading.Store(true)
			op.connected.Store(true)
			op.logger.Info("leading")
			if led != nil {
				led(ctx, r)
			}
		case <-ctx.Done():
		}
	})
	err = mgr.Start(ctx)
	cancel()
	telling.Wait() // what it has to say belongs to this term
	return err
}

func (op *operator) managerOptions() ctrl.Options {
	o := op.options
	replica, err := os.Hostname()
	if err != nil {
		replica = "" // the page then says less
	}
	shown := page.Options{Version: o.Version, Replica: replica, Leading: op.leading.Load}
	if o.LeaderElection {
		shown.Lease = types.NamespacedName{Namespace: o.LeaderNamespace, Name: leaseName}
	}
	options := ctrl.Options{
		Scheme: op.scheme,
		Metrics: metricsserver.Options{
			BindAddress:   o.MetricsAddress,
			ExtraHandlers: map[string]http.Handler{"/": page.New(op.journal, shown)},
		},
		HealthProbeBindAddress:        o.HealthAddress,
		PprofBindAddress:              o.ProfileAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.LeaderNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(leaseDuration),
		RenewDeadline:                 ptr.To(renewDeadline),
		RetryPeriod:                   ptr.To(retryPeriod),
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&discoveryv1.EndpointSlice{}: {Transform: compactSlice},
				&v1alpha1.BalancePolicy{}:    {Transform: compactPolicy},
			},
		},
	}
	if len(o.Namespaces) > 0 {
		options.Cache.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range o.Namespaces {
			options.Cache.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

func (op *operator) reconciler(mgr ctrl.Manager) (*reconciler, error) {
	compact := rest.CopyConfig(op.config)
	compact.ContentType = runtime.ContentTypeProtobuf // pods are many
	typed, err := kubernetes.NewForConfigAndClient(compact, mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfigAndClient(op.config, mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	mesh, err := serviceentry.NewClient(op.config, mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	podIndex, err := membership.NewPodIndex(typed, op.logger, op.options.Namespaces...)
	if err != nil {
		return nil, err
	}
	nodes, err := membership.NewNodeIndex(meta, op.logger)
	if err != nil {
		return nil, err
	}
	measured, err := resourcemetrics.New(op.config)
	if err != nil {
		return nil, err
	}
	r := &reconciler{
		options: op.options, client: mgr.GetClient(), givingBack: op.givingBack, now: time.Now,
		podIndex: podIndex, nodes: nodes, entries: serviceentry.NewIndex(mesh, op.options.Namespaces, op.logger),
		pods: newMentions(), journal: op.journal, metrics: op.metrics,
		events: mgr.GetEventRecorder(fieldManager), logger: op.logger,
		leading: op.leading.Load, pace: &pace{every: statusEvery, atOnce: statusesAtOnce}, states: map[types.NamespacedName]*state{}, arrivals: map[types.NamespacedName]time.Time{},
	}
	r.applier = serviceentry.New(mesh, r.entries)
	opener := &sources{secrets: mgr.GetAPIReader(), resourceMetrics: measured, open: map[sourceRef]opened{}}
	r.collect = newCollector(opener.Open, r.tick, op.metrics, op.logger)
	if r.served, err = newServed(&op.options, r.again, op.logger); err != nil {
		return nil, err
	}
	r.collect.unused = func(ref sourceRef) {
		opener.Forget(ref)
		op.metrics.ForgetSource(ref.String())
	}
	return r, nil
}

// addProbes: a replica is ready when it has read the cluster, so that a hand-over to
// it is fast; it is alive as long as it answers.
func addProbes(mgr ctrl.Manager, r *reconciler) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("caches", func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) || !r.podIndex.Synced() || !r.nodes.Synced() {
			return errors.New("the cluster is still being read")
		}
		return nil
	})
}

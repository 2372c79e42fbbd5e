package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// logEvery bounds how often a failure that lasts is logged.
const logEvery = time.Minute

// kind is what a watch follows.
type kind struct {
	// name is for messages, such as: pods of namespace demo.
	name string
	// cure ends the message when the API server forbids to read it.
	cure string
	// list and watch ask the API server.
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (kwatch.Interface, error)
	// client is what they ask with.
	client any
	// example has the type of the objects as they are sent; transform makes of them
	// what is kept.
	example   runtime.Object
	transform cache.TransformFunc
	handler   cache.ResourceEventHandler
}

// watch keeps the objects of a kind and tells its handler of changes. It goes on
// trying while the API server does not answer, with what it knew last.
type watch struct {
	kind     kind
	logger   *slog.Logger
	informer cache.SharedIndexInformer
	synced   cache.DoneChecker
	// forbidden is closed when the API server first says so.
	forbidden chan struct{}

	mu     sync.Mutex
	err    error // of the newest request; nil when it was answered
	logged time.Time
	told   bool // that err was logged
}

func newWatch(k kind, logger *slog.Logger) (*watch, error) {
	w := &watch{kind: k, logger: logger, forbidden: make(chan struct{})}
	lister := &cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}
	w.informer = cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(lister, k.client), k.example, 0, cache.Indexers{})
	registration, err := w.informer.AddEventHandler(k.handler)
	if err == nil {
		w.synced = registration.HasSyncedChecker()
		err = w.informer.SetTransform(k.transform)
	}
	if err == nil {
		err = w.informer.SetWatchErrorHandlerWithContext(w.failed)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing to watch %s: %w", k.name, err)
	}
	return w, nil
}

// run returns when ctx ends and all that it started has ended.
func (w *watch) run(ctx context.Context) { w.informer.RunWithContext(ctx) }

// get returns what is kept under a key; nil when nothing is.
func (w *watch) get(key string) any {
	object, _, _ := w.informer.GetStore().GetByKey(key) // a store in memory has no errors
	return object
}

// lastErr is why the newest request failed; nil when it was answered.
func (w *watch) lastErr() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *watch) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := listPages(ctx, o, w.kind.list, w.kind.transform)
	w.record(ctx, err)
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (w *watch) watch(ctx context.Context, o metav1.ListOptions) (kwatch.Interface, error) {
	stream, err := w.kind.watch(ctx, o)
	// An older API server does not stream lists. The informer then asks for one.
	if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) {
		w.record(ctx, err)
	}
	return stream, err
}

// failed is told of what goes wrong besides the requests themselves.
func (w *watch) failed(ctx context.Context, _ *cache.Reflector, err error) {
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	if !ended {
		w.record(ctx, err)
	}
}

// record keeps the outcome of a request, and logs when that has changed or lasts.
func (w *watch) record(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the watch ends, and that is no failure
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		if w.told {
			w.logger.Info("reading again", "what", w.kind.name)
		}
		w.err, w.told = nil, false
		return
	}
	w.err = fmt.Errorf("cannot read %s: %w", w.kind.name, err)
	if apierrors.IsForbidden(err) {
		w.err = fmt.Errorf("%w: %s", w.err, w.kind.cure)
		select {
		case <-w.forbidden:
		default:
			close(w.forbidden)
		}
	}
	if now := time.Now(); now.Sub(w.logged) >= logEvery {
		w.logger.Warn("cannot read; trying again", "what", w.kind.name, "err", w.err)
		w.logged, w.told = now, true
	}
}

// compactGone transforms the last known state of an object that went unnoticed;
// there may be none.
func compactGone(gone cache.DeletedFinalStateUnknown, transform cache.TransformFunc) (any, error) {
	if gone.Obj == nil {
		return gone, nil
	}
	last, err := transform(gone.Obj)
	if err != nil {
		return nil, err
	}
	return cache.DeletedFinalStateUnknown{Key: gone.Key, Obj: last}, nil
}

// done tells whether a channel is closed.
func done(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

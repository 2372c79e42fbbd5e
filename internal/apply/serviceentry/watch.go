package serviceentry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// retryAfter and retryMost are the pauses between attempts to watch, the first
	// and the longest: Istio may be installed at any time.
	retryAfter = time.Second
	retryMost  = 15 * time.Second
	// warnEvery bounds how often a failure is logged.
	warnEvery = 5 * time.Minute
)

// watched follows the entries of one namespace, or of all. It is the store that a
// reflector fills: what arrives is compacted and put into the index at once.
type watched struct {
	index     *Index
	namespace string
	reflector *cache.Reflector
	pause     wait.Backoff

	// These are guarded by the index's mutex.
	synced  bool
	absent  bool      // the cluster does not have the kind
	version string    // the newest resource version seen
	failing bool      // since the last success
	warned  time.Time // when that was last logged
}

func newWatched(x *Index, client rest.Interface, namespace string) *watched {
	w := &watched{index: x, namespace: namespace}
	w.pause = wait.Backoff{Duration: retryAfter, Factor: 2, Steps: 5, Cap: retryMost}
	stock := cache.NewListWatchFromClient(client, resource, namespace, fields.Everything())
	w.reflector = cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := listPages(ctx, options, stock.ListWithContextFunc)
			if err != nil {
				return nil, err
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := stock.WatchWithContext(ctx, options)
			// An API server that cannot stream a list is asked for a plain one.
			if options.SendInitialEvents == nil || !apierrors.IsInvalid(err) {
				w.note(ctx, err)
			}
			return events, err
		},
	}, &ServiceEntry{}, w, cache.ReflectorOptions{
		Name:            "serviceentry",
		TypeDescription: "ServiceEntries",
		Backoff:         &wait.Backoff{Duration: retryAfter, Factor: 2, Jitter: 0.5, Steps: 5, Cap: retryMost},
	})
	return w
}

// pageSize is how many entries are asked for at once: one may have a megabyte.
const pageSize = 50

// records is a list of entries, of which no more is kept than the index has.
type records struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object // *Record
}

// DeepCopyObject implements runtime.Object.
func (l *records) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = slices.Clone(l.Items) // which nobody changes
	return &out
}

// listPages lists all entries as they are now, page by page, and compacts each page at
// once: in one piece they take far more memory than what is kept of them. It is for API
// servers that cannot stream a list.
func listPages(ctx context.Context, options metav1.ListOptions, list cache.ListWithContextFunc) (*records, error) {
	// A list that may be old is sent in one piece, whatever the limit.
	options.ResourceVersion, options.ResourceVersionMatch, options.Limit = "", "", pageSize
	all := &records{}
	for {
		answer, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		page, ok := answer.(*serviceEntryList)
		if !ok {
			return nil, fmt.Errorf("got a %T from the API server; want a list of ServiceEntries", answer)
		}
		for i := range page.Items {
			entry, err := compact(&page.Items[i])
			if err != nil {
				return nil, err
			}
			all.Items = append(all.Items, entry)
		}
		all.ResourceVersion, options.Continue = page.ResourceVersion, page.Continue
		if page.Continue == "" {
			return all, nil
		}
	}
}

// run lists and watches again and again until ctx ends.
func (w *watched) run(ctx context.Context) {
	pause := w.pause
	for ctx.Err() == nil {
		if err := w.reflector.ListAndWatchWithContext(ctx); err == nil {
			pause = w.pause // there was a list
		} else {
			w.note(ctx, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(jittered(pause.Step())):
		}
	}
}

func jittered(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// note takes down how an attempt to watch has ended. When the API server refuses,
// rather than fails to answer, what is known of the entries counts no more until
// there is a new list.
func (w *watched) note(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // an old version makes for a new list, and is no failure
	}
	x := w.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil {
		if w.failing {
			x.logger.Info("ServiceEntries can be watched", "namespace", w.namespace)
		}
		w.failing, w.absent, w.warned = false, false, time.Time{}
		return
	}
	w.failing = true
	hint := "trying again"
	switch {
	case apierrors.IsNotFound(err):
		w.synced, w.absent = false, true
		hint = "the cluster has no ServiceEntries in version networking.istio.io/v1: is Istio installed, 1.22 or later? No weights are written until it is"
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		w.synced = false
		hint = "the operator may not list and watch ServiceEntries: give its service account the role from its installation. No weights are written until then"
	}
	if now := time.Now(); now.Sub(w.warned) >= warnEvery {
		w.warned = now
		x.logger.Warn("ServiceEntries cannot be watched", "namespace", w.namespace, "error", err, "hint", hint)
	}
}

func (w *watched) covers(namespace string) bool {
	return w.namespace == metav1.NamespaceAll || w.namespace == namespace
}

// Transformer implements cache.TransformingStore: a first list that is streamed is
// compacted entry by entry.
func (w *watched) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return record(object) }
}

// record compacts what arrives, unless that has happened already.
func record(object any) (*Record, error) {
	switch o := object.(type) {
	case *Record:
		return o, nil
	case *ServiceEntry:
		return compact(o)
	}
	return nil, fmt.Errorf("got a %T from the API server; want a ServiceEntry", object)
}

// Add implements cache.ReflectorStore.
func (w *watched) Add(object any) error { return w.put(object) }

// Update implements cache.ReflectorStore.
func (w *watched) Update(object any) error { return w.put(object) }

func (w *watched) put(object any) error {
	after, err := record(object)
	if err != nil {
		return err
	}
	w.index.mu.Lock()
	before := w.index.set(keyOf(after), after)
	w.version = after.ResourceVersion
	w.index.mu.Unlock()
	w.index.tell(before, after)
	return nil
}

// Delete implements cache.ReflectorStore.
func (w *watched) Delete(object any) error {
	last, err := record(object)
	if err != nil {
		return err
	}
	w.index.mu.Lock()
	before := w.index.set(keyOf(last), nil)
	w.version = last.ResourceVersion
	w.index.mu.Unlock()
	if before != nil {
		w.index.tell(before, nil)
	}
	return nil
}

// Replace implements cache.ReflectorStore: it takes a whole list.
func (w *watched) Replace(list []any, version string) error {
	listed := make(map[types.NamespacedName]*Record, len(list))
	for _, object := range list {
		r, err := record(object)
		if err != nil {
			return err
		}
		listed[keyOf(r)] = r
	}
	type change struct{ before, after *Record }
	var changes []change
	x := w.index
	x.mu.Lock()
	for key, known := range x.records {
		if w.covers(key.Namespace) && listed[key] == nil {
			changes = append(changes, change{known, nil})
		}
	}
	for _, gone := range changes {
		x.set(keyOf(gone.before), nil)
	}
	for key, after := range listed {
		before := x.set(key, after)
		if before == nil || before.UID != after.UID || before.ResourceVersion != after.ResourceVersion {
			changes = append(changes, change{before, after})
		}
	}
	w.version, w.synced, w.absent = version, true, false
	x.mu.Unlock()
	for _, c := range changes {
		x.tell(c.before, c.after)
	}
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (w *watched) Bookmark(version string) error {
	w.index.mu.Lock()
	defer w.index.mu.Unlock()
	w.version = version
	return nil
}

// Resync implements cache.ReflectorStore: there is nothing to repeat.
func (w *watched) Resync() error { return nil }

func keyOf(r *Record) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

package serviceentry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	// requestTimeout ends a request of a caller who set no deadline.
	requestTimeout = 10 * time.Second
	// maxRemovals bounds how often Remove tries while somebody changes the entry.
	maxRemovals = 5
	// metadataOnly asks for an answer without the spec, which was just sent.
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// ErrNotSynced says that the ServiceEntries of the cluster are not known, so that
// none is written: one of somebody else could be in the way.
var ErrNotSynced = errors.New("the ServiceEntries of the cluster are not known yet, or may not be read: see the operator's log")

// ForeignError says that a ServiceEntry of somebody else is in the way.
type ForeignError struct {
	// Namespace and Name are those of the other ServiceEntry.
	Namespace, Name string
	// Host is the host that both have; empty when it is the name that is taken.
	Host string
}

// Error implements error.
func (e *ForeignError) Error() string {
	if e.Host == "" {
		return fmt.Sprintf("ServiceEntry %s/%s is in the way: its name is needed, but it is not taper's; delete it or give it another name", e.Namespace, e.Name)
	}
	return fmt.Sprintf("ServiceEntry %s/%s is in the way: it has the host %s too, and istiod would mix its endpoints with ours; delete it, or delete the policy", e.Namespace, e.Name, e.Host)
}

// Applier writes entries. It is safe for concurrent use.
type Applier struct {
	client rest.Interface
	index  *Index

	mu sync.Mutex
	// writes has the last write of each entry, for as long as the index lags.
	writes map[types.NamespacedName]written
}

// written is what the API server answered to a write.
type written struct {
	digest  Digest
	uid     types.UID
	version string
}

// New makes an Applier. The client is one of [NewClient]; the index must not have
// been started yet.
func New(client rest.Interface, index *Index) *Applier {
	a := &Applier{client: client, index: index, writes: map[types.NamespacedName]written{}}
	index.OnChange(func(before, after *Record) {
		if after == nil {
			a.forget(keyOf(before), before.UID)
		}
	})
	return a
}

// Apply makes the cluster hold the entry, and tells whether that took a write: none
// is made when the cluster holds it already, as far as can be known. It is
// idempotent. A *[ForeignError] is an entry of somebody else in the way, which is
// left alone, and [ErrNotSynced] is for a later try.
func (a *Applier) Apply(ctx context.Context, e Entry) (bool, error) {
	key := types.NamespacedName{Namespace: e.Namespace, Name: Name(e.Service, e.Port.Name)}
	wrote, err := a.apply(ctx, key, &e)
	if _, foreign := errors.AsType[*ForeignError](err); foreign || err == nil {
		return wrote, err
	}
	return wrote, fmt.Errorf("writing ServiceEntry %s: %w", key, err)
}

func (a *Applier) apply(ctx context.Context, key types.NamespacedName, e *Entry) (bool, error) {
	if err := e.check(); err != nil {
		return false, err
	}
	if !a.index.Synced() {
		return false, ErrNotSynced
	}
	if err := a.foreign(key, e.Host); err != nil {
		return false, err
	}
	known := a.known(key)
	body, want, err := encode(Render(*e), known.uid)
	if err != nil {
		return false, err
	}
	if known.uid != "" && known.digest == want {
		return false, nil
	}
	err = a.patch(ctx, key, want, types.ApplyPatchType, body)
	if apierrors.IsConflict(err) {
		a.forget(key, known.uid) // it is another object by now
	}
	if err != nil {
		return false, err
	}
	if a.known(key).stubborn == want {
		err = a.replace(ctx, key, e, known.uid, want)
	}
	return true, err
}

// foreign returns an error for an entry of somebody else that has our name or host.
func (a *Applier) foreign(key types.NamespacedName, host string) error {
	if record, ok := a.index.Get(key.Namespace, key.Name); ok && !record.Managed {
		return &ForeignError{Namespace: key.Namespace, Name: key.Name}
	}
	for _, record := range a.index.ForHost(key.Namespace, host) {
		if !record.Managed {
			return &ForeignError{Namespace: record.Namespace, Name: record.Name, Host: host}
		}
	}
	return nil
}

// known is what the cluster holds of an entry, by the newer one of what the index
// shows and what was last written.
type known struct {
	uid    types.UID // empty when there is no such entry
	digest Digest
	// stubborn is set when the cluster holds exactly what our last write has led to,
	// and that still differs from what the write said, which this is the digest of.
	stubborn Digest
}

func (a *Applier) known(key types.NamespacedName) known {
	record, there := a.index.Get(key.Namespace, key.Name)
	a.mu.Lock()
	defer a.mu.Unlock()
	last, wrote := a.writes[key]
	switch {
	case wrote && there && older(record.ResourceVersion, last.version),
		wrote && !there && !a.index.reached(key.Namespace, last.version):
		return known{uid: last.uid, digest: last.digest}
	case !there:
		return known{}
	}
	now := known{uid: record.UID, digest: record.Digest}
	if wrote && last.version == record.ResourceVersion && last.digest != record.Digest {
		now.stubborn = last.digest
	}
	return now
}

// replace puts the whole spec in place. Server-side apply leaves alone what others
// have added, such as another port; in an entry of ours it has no place.
func (a *Applier) replace(ctx context.Context, key types.NamespacedName, e *Entry, uid types.UID, want Digest) error {
	patch, err := json.Marshal([]struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}{
		{"test", "/metadata/uid", uid},
		{"replace", "/spec", &Render(*e).Spec},
	})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	return a.patch(ctx, key, want, types.JSONPatchType, patch)
}

// patch sends a write and takes down what came of it.
func (a *Applier) patch(ctx context.Context, key types.NamespacedName, want Digest, kind types.PatchType, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request := a.client.Patch(kind).
		Namespace(key.Namespace).Resource(resource).Name(key.Name).
		Param("fieldManager", FieldManager).
		// The API server would parse the whole entry a second time, for warnings about
		// fields that it does not know.
		Param("fieldValidation", metav1.FieldValidationIgnore).
		SetHeader("Accept", metadataOnly).
		Body(body)
	if kind == types.ApplyPatchType {
		request.Param("force", "true")
	}
	var answer metav1.PartialObjectMetadata
	if err := request.Do(ctx).Into(&answer); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, ok := a.writes[key]; !ok || last.uid != answer.UID || !older(answer.ResourceVersion, last.version) {
		a.writes[key] = written{want, answer.UID, answer.ResourceVersion}
	}
	return nil
}

// forget drops what was written of an object that is gone.
func (a *Applier) forget(key types.NamespacedName, uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.writes[key].uid == uid {
		delete(a.writes, key)
	}
}

// Remove deletes an entry of ours; that there is none is fine. One of somebody else,
// also of a policy that has taken it over meanwhile, is left alone.
func (a *Applier) Remove(ctx context.Context, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var err error
	for range maxRemovals {
		if err = a.remove(ctx, types.NamespacedName{Namespace: namespace, Name: name}); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("removing ServiceEntry %s/%s: %w", namespace, name, err)
	}
	return nil
}

// remove looks at the entry as it is now, and deletes it if it has not changed since.
func (a *Applier) remove(ctx context.Context, key types.NamespacedName) error {
	var now metav1.PartialObjectMetadata
	err := a.client.Get().Namespace(key.Namespace).Resource(resource).Name(key.Name).
		SetHeader("Accept", metadataOnly).Do(ctx).Into(&now)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !managed(&now.ObjectMeta) || a.changedHands(key, &now.ObjectMeta) {
		return nil
	}
	err = a.client.Delete().Namespace(key.Namespace).Resource(resource).Name(key.Name).
		Body(&metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion},
		}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	a.forget(key, now.UID)
	return nil
}

// changedHands tells whether the entry has another owner than the one that the
// caller could know of.
func (a *Applier) changedHands(key types.NamespacedName, now *metav1.ObjectMeta) bool {
	record, known := a.index.Get(key.Namespace, key.Name)
	owner := policyOf(now)
	return known && record.PolicyUID != "" && owner != nil && owner.UID != record.PolicyUID
}

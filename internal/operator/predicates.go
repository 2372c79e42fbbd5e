package operator

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// deletionStarted lets the update through with which a deletion begins: it does not
// change the generation of every kind of object.
type deletionStarted struct{ predicate.Funcs }

// Update implements predicate.Predicate.
func (deletionStarted) Update(e event.UpdateEvent) bool {
	return e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
}

// specChanged lets a Service through whose spec has changed; Services have no
// generation, and their status does not matter here.
type specChanged struct{ predicate.Funcs }

// Update implements predicate.Predicate.
func (specChanged) Update(e event.UpdateEvent) bool {
	before, okBefore := e.ObjectOld.(*corev1.Service)
	after, okAfter := e.ObjectNew.(*corev1.Service)
	return !okBefore || !okAfter || !reflect.DeepEqual(before.Spec, after.Spec)
}

package serviceentry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	name     = "taper-fib.http"
	applied  = "PATCH application/apply-patch+yaml"
	replaced = "PATCH application/json-patch+json"
	read     = "GET "
	removed  = "DELETE application/json"
)

// mustApply applies and sees which requests that takes.
func mustApply(t *testing.T, s *apiServer, a *Applier, what string, e Entry, requests ...string) {
	t.Helper()
	s.taken()
	wrote, err := a.Apply(t.Context(), e)
	if err != nil || wrote != (len(requests) > 0) {
		t.Fatalf("%s: written %v, %v", what, wrote, err)
	}
	if got := s.taken(); !slices.Equal(got, requests) {
		t.Fatalf("%s: requests %q, want %q", what, got, requests)
	}
}

// caughtUp waits until the index has seen what the server holds.
func caughtUp(t *testing.T, s *apiServer, a *Applier) {
	t.Helper()
	eventually(t, "the index has caught up", func() bool {
		held := s.get("demo", name)
		record, known := a.index.Get("demo", name)
		return known == (held != nil) && (held == nil || record.ResourceVersion == held.ResourceVersion)
	})
}

func TestApply(t *testing.T) {
	t.Parallel()
	s, a := running(t)
	e := entryOf(2, 2)
	mustApply(t, s, a, "the first", e, applied)
	mustApply(t, s, a, "the same, while the index may lag", e)
	caughtUp(t, s, a)
	mustApply(t, s, a, "the same", e)

	e.Endpoints[0].Weight = 70
	mustApply(t, s, a, "another weight", e, applied)
	caughtUp(t, s, a)
	mustApply(t, s, a, "the same again", e)
	record, _ := a.index.Get("demo", name)
	if !record.Managed || record.Policy != "fib" || record.PolicyUID != "policy-1" || record.Weights["10.0.0.0"] != 70 || record.Weights["10.0.0.1"] != 2 {
		t.Errorf("the record is %+v", record)
	}

	e.Owner.Name, e.Owner.UID = "second", "policy-2"
	mustApply(t, s, a, "another policy takes over", e, applied)
	if owners := s.get("demo", name).OwnerReferences; len(owners) != 1 || owners[0].UID != "policy-2" {
		t.Errorf("owners are %v", owners)
	}
}

// TestRepair sees that what others change in an entry is put back.
func TestRepair(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		change   func(o *ServiceEntry)
		requests []string
	}{
		"a weight":          {func(o *ServiceEntry) { o.Spec.Endpoints[0].Weight = 9 }, []string{applied}},
		"our label":         {func(o *ServiceEntry) { delete(o.Labels, labelManagedBy) }, []string{applied}},
		"our owner":         {func(o *ServiceEntry) { o.OwnerReferences = nil }, []string{applied}},
		"a label of theirs": {func(o *ServiceEntry) { o.Labels["team"] = "shop" }, nil},
		"a port of theirs":  {func(o *ServiceEntry) { o.Spec.Ports = append(o.Spec.Ports, ServicePort{Number: 9, Name: "x"}) }, []string{applied, replaced}},
		"a port and a weight": {func(o *ServiceEntry) {
			o.Spec.Ports = append(o.Spec.Ports, ServicePort{Number: 9, Name: "x"})
			o.Spec.Endpoints[0].Weight = 9
		}, []string{applied, replaced}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, a := running(t)
			e := entryOf(2, 1)
			mustApply(t, s, a, "the first", e, applied)
			s.put("demo", name, test.change)
			caughtUp(t, s, a)
			s.taken()
			for tries := 0; ; tries++ {
				wrote, err := a.Apply(t.Context(), e)
				if err != nil || tries > 2 {
					t.Fatalf("try %d: %v", tries, err)
				}
				if !wrote {
					break
				}
				caughtUp(t, s, a)
			}
			// What is of others goes with the first try or with the next, depending on
			// whether the index was faster.
			if got := slices.Compact(s.taken()); !slices.Equal(got, test.requests) {
				t.Errorf("requests %q, want %q", got, test.requests)
			}
			got, err := digestOf(s.get("demo", name))
			if _, want, _ := encode(Render(e), ""); err != nil || got != want {
				t.Errorf("the cluster holds %+v: %v", s.get("demo", name), err)
			}
		})
	}
}

// TestDeleted sees that an entry that somebody deletes is written again, and that one
// that was deleted and made anew by somebody else is not overwritten.
func TestDeleted(t *testing.T) {
	t.Parallel()
	s, a := running(t)
	e := entryOf(1, 1)
	mustApply(t, s, a, "the first", e, applied)
	caughtUp(t, s, a)
	s.drop("demo", name)
	caughtUp(t, s, a)
	mustApply(t, s, a, "after the deletion", e, applied)
	caughtUp(t, s, a)

	e.Endpoints[0].Weight++
	s.silence()
	s.drop("demo", name)
	s.put("demo", name, func(o *ServiceEntry) { o.Spec.Hosts = []string{host} })
	if wrote, err := a.Apply(t.Context(), e); wrote || !apierrors.IsConflict(err) {
		t.Errorf("written %v, %v; want a conflict", wrote, err)
	}
	if o := s.get("demo", name); len(o.Spec.Endpoints) != 0 {
		t.Errorf("the entry of somebody else was overwritten: %+v", o)
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	s, a := running(t)
	e := entryOf(1, 1)
	refused := func(want ForeignError, text string) {
		t.Helper()
		eventually(t, "the index knows "+want.Name, func() bool { _, known := a.index.Get("demo", want.Name); return known })
		s.taken()
		wrote, err := a.Apply(t.Context(), e)
		got, ok := errors.AsType[*ForeignError](err)
		if wrote || !ok || *got != want || err.Error() != text {
			t.Errorf("written %v, %v; want %q", wrote, err, text)
		}
		if requests := s.taken(); len(requests) != 0 {
			t.Errorf("requests: %v", requests)
		}
	}

	s.put("demo", "theirs", func(o *ServiceEntry) { o.Spec.Hosts = []string{"else", host} })
	s.put("other", "theirs", func(o *ServiceEntry) { o.Spec.Hosts = []string{host} }) // istiod keeps namespaces apart
	refused(ForeignError{"demo", "theirs", host}, "ServiceEntry demo/theirs is in the way: it has the host fib.demo.svc.cluster.local too, and istiod would mix its endpoints with ours; delete it, or delete the policy")
	s.put("demo", "theirs", func(o *ServiceEntry) { o.Spec.Hosts = []string{"else"} })
	eventually(t, "the host is free", func() bool { return len(a.index.ForHost("demo", host)) == 0 })

	s.put("demo", name, func(o *ServiceEntry) { o.Spec.Hosts = []string{"unrelated"} })
	refused(ForeignError{"demo", name, ""}, "ServiceEntry demo/taper-fib.http is in the way: its name is needed, but it is not taper's; delete it or give it another name")
	s.drop("demo", name)
	caughtUp(t, s, a)
	mustApply(t, s, a, "when they are gone", e, applied)

	second := entryOf(1, 1)
	second.Port.Name, second.Port.Number = "grpc", 9090
	mustApply(t, s, a, "another port of the same host", second, applied)
}

func TestRemove(t *testing.T) {
	t.Parallel()
	s, a := running(t)
	e := entryOf(1, 1)
	remove := func(what string, gone bool, requests ...string) {
		t.Helper()
		s.taken()
		if err := a.Remove(t.Context(), "demo", name); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := s.taken(); !slices.Equal(got, requests) {
			t.Errorf("%s: requests %q, want %q", what, got, requests)
		}
		if is := s.get("demo", name) == nil; is != gone {
			t.Errorf("%s: gone is %v, want %v", what, is, gone)
		}
	}
	remove("what is not there", true, read)

	mustApply(t, s, a, "the first", e, applied)
	remove("ours, which the index may not know yet", true, read, removed)
	caughtUp(t, s, a)

	mustApply(t, s, a, "the second", e, applied)
	s.before = func() { s.change("demo", name, func(o *ServiceEntry) { o.Labels["team"] = "shop" }) }
	remove("ours, which somebody is changing", true, read, removed, read, removed)
	caughtUp(t, s, a)

	s.put("demo", name, func(o *ServiceEntry) { o.Spec.Hosts = []string{host} })
	remove("somebody else's", false, read)
	s.drop("demo", name)
	caughtUp(t, s, a)

	mustApply(t, s, a, "the third", e, applied)
	caughtUp(t, s, a)
	s.silence()
	s.put("demo", name, func(o *ServiceEntry) { o.OwnerReferences[0].UID, o.OwnerReferences[0].Name = "policy-2", "second" })
	remove("another policy's by now", false, read)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	client := server.client()
	x := NewIndex(client, nil, slog.New(slog.DiscardHandler))
	a := New(client, x)
	e := entryOf(1, 1)
	if _, err := a.Apply(t.Context(), e); !errors.Is(err, ErrNotSynced) || !strings.HasPrefix(err.Error(), "writing ServiceEntry demo/taper-fib.http: ") {
		t.Errorf("before the index is synced: %v", err)
	}
	server.run(x)
	eventually(t, "the index is synced", x.Synced)
	e.Endpoints[0].Weight = 0
	if _, err := a.Apply(t.Context(), e); err == nil || err.Error() != "writing ServiceEntry demo/taper-fib.http: endpoint 10.0.0.0 has weight 0; want at least 1" {
		t.Errorf("a bad entry: %v", err)
	}
	server.denied = true
	if wrote, err := a.Apply(t.Context(), entryOf(1, 1)); wrote || !apierrors.IsForbidden(err) || err.Error() != "writing ServiceEntry demo/taper-fib.http: the operator may not" {
		t.Errorf("a forbidden write: %v, %v", wrote, err)
	}
	server.denied = false
	if wrote, err := a.Apply(t.Context(), entryOf(1, 1)); !wrote || err != nil {
		t.Errorf("after a failed write: written %v, %v", wrote, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Apply(ctx, entryOf(2, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if err := a.Remove(ctx, "demo", name); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "removing ServiceEntry demo/taper-fib.http: ") {
		t.Errorf("a context that has ended: %v", err)
	}
}

// TestConcurrent applies many entries, and each one many times over, at once.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	s, a := running(t)
	const entries, times = 8, 6
	var all sync.WaitGroup
	for i := range entries {
		for j := range times {
			all.Go(func() {
				e := entryOf(3, 1)
				e.Service, e.Host = fmt.Sprintf("svc-%d", i), fmt.Sprintf("svc-%d.demo.svc.cluster.local", i)
				e.Endpoints[0].Weight = uint32(j + 1)
				if _, err := a.Apply(t.Context(), e); err != nil && !apierrors.IsConflict(err) {
					t.Errorf("entry %d: %v", i, err)
				}
			})
		}
	}
	all.Wait()
	for i := range entries {
		service := fmt.Sprintf("svc-%d", i)
		held := s.get("demo", Name(service, "http"))
		eventually(t, "the index knows the last write", func() bool {
			record, _ := a.index.Get("demo", Name(service, "http"))
			return record.ResourceVersion == held.ResourceVersion
		})
		e := entryOf(3, 1)
		e.Service, e.Host = service, service+".demo.svc.cluster.local"
		e.Endpoints[0].Weight = held.Spec.Endpoints[0].Weight
		mustApply(t, s, a, "what is held", e)
	}
}

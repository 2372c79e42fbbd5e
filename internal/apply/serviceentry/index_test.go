package serviceentry

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// changes collects what an index tells, as "name: before -> after" with the versions.
type changes struct {
	mu   sync.Mutex
	seen []string
}

func (c *changes) note(before, after *Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	say := func(r *Record) string {
		if r == nil {
			return "nothing"
		}
		return fmt.Sprintf("%s %v %q", r.Namespace+"/"+r.Name, r.Managed, r.Hosts)
	}
	c.seen = append(c.seen, say(before)+" -> "+say(after))
}

func (c *changes) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	slices.Sort(seen)
	return seen
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func ours(o *ServiceEntry) {
	e := entryOf(2, 3)
	rendered := Render(e)
	o.Labels, o.OwnerReferences, o.Spec = rendered.Labels, rendered.OwnerReferences, rendered.Spec
}

func theirs(hosts ...string) func(*ServiceEntry) {
	return func(o *ServiceEntry) {
		o.Spec.Hosts, o.Spec.Endpoints = hosts, []WorkloadEntry{{Address: "10.1.1.1", Weight: 3}}
		o.Labels = map[string]string{"team": "shop"}
	}
}

// TestIndex follows entries from the first list on, whether that is streamed or not.
func TestIndex(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} {
		t.Run(fmt.Sprintf("streams=%v", streams), func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t)
			s.streams = streams
			s.put("demo", name, ours)
			s.put("demo", "theirs", theirs("a", "b"))
			var told changes
			x := NewIndex(s.client(), nil, slog.New(slog.DiscardHandler))
			x.OnChange(told.note)
			if x.Synced() {
				t.Error("synced before the start")
			}
			s.run(x)
			eventually(t, "the index is synced", x.Synced)
			mine, gone := `demo/taper-fib.http true ["fib.demo.svc.cluster.local"]`, " -> nothing"
			expect := func(what string, want ...string) {
				t.Helper()
				var got []string
				eventually(t, what, func() bool { got = append(got, told.taken()...); return len(got) >= len(want) })
				if !slices.Equal(got, want) {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
			expect("the start", "nothing -> "+mine, `nothing -> demo/theirs false ["a" "b"]`)

			record, ok := x.Get("demo", name)
			if want := map[string]uint32{"10.0.0.0": 1, "10.0.0.1": 2}; !ok || !maps.Equal(record.Weights, want) || record.Policy != "fib" {
				t.Errorf("our record: %v %+v", ok, record)
			}
			if record.Labels != nil || record.OwnerReferences != nil {
				t.Errorf("more is kept than needed: %+v", record)
			}
			if record, ok = x.Get("demo", "theirs"); !ok || record.Weights != nil || record.Digest != (Digest{}) || record.Labels != nil {
				t.Errorf("their record: %v %+v", ok, record)
			}
			if _, ok := x.Get("other", "theirs"); ok {
				t.Error("there is an entry in another namespace")
			}

			s.put("demo", "theirs", theirs("b", host))
			expect("other hosts", `demo/theirs false ["a" "b"] -> demo/theirs false ["b" "fib.demo.svc.cluster.local"]`)
			var names []string
			for _, r := range x.ForHost("demo", host) {
				names = append(names, r.Name)
			}
			if !slices.Equal(names, []string{name, "theirs"}) || len(x.ForHost("demo", "a"))+len(x.ForHost("other", "b")) != 0 {
				t.Errorf("for %s: %v; for a: %v", host, names, x.ForHost("demo", "a"))
			}
			s.drop("demo", name)
			expect("a deletion", mine+gone)
			if got := x.ForHost("demo", host); len(got) != 1 || len(x.hosts) != 2 {
				t.Errorf("left are %v, with the hosts %v", got, x.hosts)
			}
		})
	}
}

// TestRelist sees that what happened while nobody watched is told after the next list.
func TestRelist(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	for _, n := range []string{"stays", "goes", "changes", "anew"} {
		s.put("demo", n, theirs(n))
	}
	var told changes
	x := NewIndex(s.client(), nil, slog.New(slog.DiscardHandler))
	x.OnChange(told.note)
	s.run(x)
	eventually(t, "the index is synced", func() bool { return x.Synced() && len(x.ForHost("demo", "anew")) == 1 })
	told.taken()

	s.refuse(http.StatusForbidden)
	eventually(t, "the index is out of sync", func() bool { return !x.Synced() })
	s.drop("demo", "goes")
	s.put("demo", "changes", theirs("changed"))
	s.drop("demo", "anew")
	s.put("demo", "anew", theirs("anew"))
	s.put("demo", "comes", theirs("comes"))
	s.refuse(0)
	eventually(t, "the index is synced again", x.Synced)
	var got []string
	eventually(t, "changes are told", func() bool { got = append(got, told.taken()...); return len(got) >= 4 })
	want := []string{
		`demo/anew false ["anew"] -> demo/anew false ["anew"]`,
		`demo/changes false ["changes"] -> demo/changes false ["changed"]`,
		`demo/goes false ["goes"] -> nothing`,
		`nothing -> demo/comes false ["comes"]`,
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// TestNoIstio sees that a cluster without ServiceEntries neither blocks nor fills the
// log, and that they are found when they come, go and come again.
func TestNoIstio(t *testing.T) {
	t.Parallel()
	for code, hint := range map[int]string{http.StatusNotFound: "is Istio installed", http.StatusForbidden: "may not list and watch"} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t)
			s.refuse(code)
			var log lines
			x := NewIndex(s.client(), nil, slog.New(slog.NewTextHandler(&log, nil)))
			s.run(x)
			for round := 1; round <= 2; round++ {
				eventually(t, "the failure is logged", func() bool { return log.count(hint) == round })
				if x.Synced() {
					t.Fatal("synced without ServiceEntries")
				}
				s.refuse(0)
				eventually(t, "the index is synced", func() bool { return x.Synced() && log.count("ServiceEntries can be watched") == round })
				s.put("demo", fmt.Sprint("theirs-", round), theirs("a"))
				eventually(t, "the entry is known", func() bool { return len(x.ForHost("demo", "a")) == round })
				s.refuse(code)
				eventually(t, "the index is out of sync", func() bool { return !x.Synced() })
			}
			if n := log.count("level=WARN"); n != 3 && n != 2 {
				t.Errorf("%d warnings for three failures:\n%s", n, log.text.String())
			}
		})
	}
}

// TestNamespaces sees that an index of some namespaces keeps to them, and relies on
// none before it knows all.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	for _, namespace := range []string{"a", "b", "c"} {
		s.put(namespace, "theirs", theirs("h"))
	}
	x := NewIndex(s.client(), []string{"b", "a", "b"}, slog.New(slog.DiscardHandler))
	if len(x.watches) != 2 || x.NeedLeaderElection() {
		t.Errorf("%d watches; leader election %v", len(x.watches), x.NeedLeaderElection())
	}
	s.run(x)
	eventually(t, "the index is synced", x.Synced)
	for namespace, want := range map[string]int{"a": 1, "b": 1, "c": 0} {
		if got := len(x.ForHost(namespace, "h")); got != want {
			t.Errorf("%d entries in %s, want %d", got, namespace, want)
		}
	}
	if !x.reached("a", "100") || x.reached("a", "1000000") || x.reached("c", "100") {
		t.Error("the index has reached other versions than those that it has seen")
	}
	s.drop("a", "theirs")
	eventually(t, "the deletion is known", func() bool { return len(x.ForHost("a", "h")) == 0 })
	if len(x.ForHost("b", "h")) != 1 {
		t.Error("an entry of another namespace is gone, too")
	}
	x.mu.Lock()
	x.watches[1].synced = false
	x.mu.Unlock()
	if x.Synced() {
		t.Error("synced, while one namespace is not")
	}
}

// A list that is not streamed comes in pages, and all of them count.
func TestManyEntries(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	const many = 2*pageSize + 1
	for i := range many {
		s.put("demo", fmt.Sprintf("entry-%03d", i), func(o *ServiceEntry) { o.Spec.Hosts = []string{"fib.demo.svc.cluster.local"} })
	}
	x := NewIndex(s.client(), nil, slog.New(slog.DiscardHandler))
	s.run(x)
	eventually(t, "the index is synced", x.Synced)
	if got := len(x.ForHost("demo", "fib.demo.svc.cluster.local")); got != many {
		t.Errorf("%d entries are known of %d", got, many)
	}
	s.put("demo", "one-more", func(o *ServiceEntry) { o.Spec.Hosts = []string{"fib.demo.svc.cluster.local"} })
	eventually(t, "the watch goes on from the list", func() bool {
		return len(x.ForHost("demo", "fib.demo.svc.cluster.local")) == many+1
	})
}

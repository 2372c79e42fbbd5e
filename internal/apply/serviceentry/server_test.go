package serviceentry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// apiServer stands in for the API server, as far as ServiceEntries go. Like the real
// one it leaves alone, in a server-side apply, the ports that others have added.
type apiServer struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	version  int
	objects  map[string]*ServiceEntry // by namespace/name
	watchers map[chan string]string   // their namespaces
	history  []event
	requests []string // writes and reads of one object
	streams  bool     // lists can be streamed
	refusal  int      // the status that lists and watches are refused with
	silent   bool     // changes are not told to those that watch
	denied   bool     // writes are forbidden
	before   func()   // is called, once, before the next delete is carried out
}

// event is what those that watch a namespace are told.
type event struct {
	version         int
	namespace, text string
}

func (e event) concerns(namespace string) bool { return namespace == "" || namespace == e.namespace }

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{t: t, objects: map[string]*ServiceEntry{}, watchers: map[chan string]string{}, version: 100}
	server := httptest.NewServer(s)
	s.url = server.URL
	t.Cleanup(server.Close)
	return s
}

func (s *apiServer) client() rest.Interface {
	s.t.Helper()
	client, err := NewClient(&rest.Config{Host: s.url, QPS: 1}, http.DefaultClient)
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/apis/networking.istio.io/v1/")
	if dir, name := path.Split(key); name == resource {
		namespace := strings.Trim(strings.TrimPrefix(dir, "namespaces/"), "/")
		s.collection(w, r, namespace)
		return
	}
	key = strings.Replace(strings.TrimPrefix(key, "namespaces/"), "/"+resource+"/", "/", 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.Header.Get("Content-Type"))
	switch {
	case r.Method == http.MethodGet:
		s.answer(w, s.objects[key])
	case s.denied:
		status(w, http.StatusForbidden, metav1.StatusReasonForbidden, "the operator may not")
	case r.Method == http.MethodPatch:
		s.patch(w, r, key)
	case r.Method == http.MethodDelete:
		s.remove(w, r, key)
	default:
		s.t.Errorf("%s %s is not what an API server is asked", r.Method, r.URL)
	}
}

// answer sends what a client asks for with Accept: the metadata.
func (s *apiServer) answer(w http.ResponseWriter, object *ServiceEntry) {
	if object == nil {
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, "there is no such ServiceEntry")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(&metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: object.ObjectMeta,
	})
}

func status(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: message,
	})
}

func (s *apiServer) patch(w http.ResponseWriter, r *http.Request, key string) {
	query := r.URL.Query()
	if query.Get("fieldManager") != FieldManager || r.Header.Get("Accept") != metadataOnly {
		s.t.Errorf("a write by %q that accepts %q", query.Get("fieldManager"), r.Header.Get("Accept"))
	}
	now := s.objects[key]
	next := &ServiceEntry{}
	switch how := types.PatchType(r.Header.Get("Content-Type")); how {
	case types.ApplyPatchType:
		if err := json.NewDecoder(r.Body).Decode(next); err != nil || query.Get("force") != "true" || next.Kind != "ServiceEntry" {
			s.t.Errorf("an apply with force %q of a %q: %v", query.Get("force"), next.Kind, err)
		}
		if next.UID != "" && (now == nil || now.UID != next.UID) {
			status(w, http.StatusConflict, metav1.StatusReasonConflict, "Precondition failed: UID in precondition: "+string(next.UID))
			return
		}
		if now != nil {
			next.Spec.Ports = append(next.Spec.Ports, now.Spec.Ports[min(1, len(now.Spec.Ports)):]...)
			next.UID = now.UID
		}
	case types.JSONPatchType:
		var steps []struct {
			Op, Path string
			Value    json.RawMessage
		}
		var uid types.UID
		err := json.NewDecoder(r.Body).Decode(&steps)
		if err == nil {
			err = json.Unmarshal(steps[0].Value, &uid)
		}
		if err == nil {
			err = json.Unmarshal(steps[1].Value, &next.Spec)
		}
		if err != nil || steps[0].Op+steps[0].Path+steps[1].Op+steps[1].Path != "test/metadata/uidreplace/spec" || now == nil || uid != now.UID {
			s.t.Errorf("the patch %v of %v: %v", steps, now, err)
			return
		}
		next.TypeMeta, next.ObjectMeta = now.TypeMeta, now.ObjectMeta
	default:
		s.t.Errorf("a patch of type %q", how)
	}
	s.store(key, next)
	s.answer(w, s.objects[key])
}

func (s *apiServer) remove(w http.ResponseWriter, r *http.Request, key string) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	var options metav1.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil || options.Preconditions == nil {
		s.t.Errorf("a delete without preconditions: %v", err)
		return
	}
	now := s.objects[key]
	switch {
	case now == nil:
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, "there is no such ServiceEntry")
	case *options.Preconditions.UID != now.UID || *options.Preconditions.ResourceVersion != now.ResourceVersion:
		status(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been changed")
	default:
		s.store(key, nil)
		status(w, http.StatusOK, "", "")
	}
}

// store puts an object, or takes it away, and tells those that watch.
func (s *apiServer) store(key string, object *ServiceEntry) {
	now := s.objects[key]
	verb := "MODIFIED"
	switch {
	case object == nil:
		verb, object = "DELETED", now.deepCopy()
	case now == nil:
		verb = "ADDED"
		if object.UID == "" {
			object.UID = types.UID(fmt.Sprintf("uid-%d", s.version))
		}
	default:
		object.UID, object.ResourceVersion = now.UID, now.ResourceVersion
		if slices.Equal(mustJSON(s.t, now), mustJSON(s.t, object)) {
			return // nothing changes
		}
	}
	s.version++
	object.ResourceVersion = strconv.Itoa(s.version)
	object.TypeMeta = metav1.TypeMeta{APIVersion: groupVersion.String(), Kind: kind}
	s.objects[key] = object
	if verb == "DELETED" {
		delete(s.objects, key)
	}
	if s.silent {
		return
	}
	happened := event{s.version, object.Namespace, fmt.Sprintf(`{"type":%q,"object":%s}`, verb, mustJSON(s.t, object))}
	s.history = append(s.history, happened)
	for watcher, namespace := range s.watchers {
		if happened.concerns(namespace) {
			watcher <- happened.text
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// put is what somebody else does: it stores a changed object.
func (s *apiServer) put(namespace, name string, change func(o *ServiceEntry)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(namespace, name, change)
}

func (s *apiServer) change(namespace, name string, change func(o *ServiceEntry)) {
	object := &ServiceEntry{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if now := s.objects[namespace+"/"+name]; now != nil {
		object = now.deepCopy()
	}
	change(object)
	s.store(namespace+"/"+name, object)
}

func (s *apiServer) drop(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(namespace+"/"+name, nil)
}

// silence keeps what happens from those that watch, as when the network is slow.
func (s *apiServer) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
}

// get returns what the server holds; nil when there is no such object.
func (s *apiServer) get(namespace, name string) *ServiceEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[namespace+"/"+name]
}

// taken returns the requests since the last call, but for lists and watches.
func (s *apiServer) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// refuse has lists and watches refused with a status, and ends those that run; with 0
// they are allowed again.
func (s *apiServer) refuse(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = code
	for watcher := range s.watchers {
		delete(s.watchers, watcher)
		close(watcher)
	}
}

// collection answers lists and watches.
func (s *apiServer) collection(w http.ResponseWriter, r *http.Request, namespace string) {
	query := r.URL.Query()
	s.mu.Lock()
	if s.refusal != 0 {
		reason := map[int]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden}[s.refusal]
		status(w, s.refusal, reason, "refused")
		s.mu.Unlock()
		return
	}
	var items []ServiceEntry
	for _, object := range s.objects {
		if namespace == "" || namespace == object.Namespace {
			items = append(items, *object)
		}
	}
	switch {
	case query.Get("watch") != "true":
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(s.page(query, items))
		s.mu.Unlock()
	case query.Get("sendInitialEvents") == "true" && !s.streams:
		status(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden")
		s.mu.Unlock()
	default:
		events := make(chan string, 1000)
		if query.Get("sendInitialEvents") == "true" {
			for i := range items {
				events <- fmt.Sprintf(`{"type":"ADDED","object":%s}`, mustJSON(s.t, &items[i]))
			}
			events <- fmt.Sprintf(`{"type":"BOOKMARK","object":{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{}}}`, s.version)
		} else if from, err := strconv.Atoi(query.Get("resourceVersion")); err != nil {
			s.t.Errorf("a watch from version %q", query.Get("resourceVersion"))
		} else {
			for _, e := range s.history {
				if e.version > from && e.concerns(namespace) {
					events <- e.text
				}
			}
		}
		s.watchers[events] = namespace
		s.mu.Unlock()
		s.stream(w, r.Context(), events)
	}
}

// page is what a list with a limit is answered with.
func (s *apiServer) page(query url.Values, items []ServiceEntry) *serviceEntryList {
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit <= 0 || query.Get("resourceVersion") != "" {
		s.t.Errorf("a list with limit %q of version %q: all entries in one piece are large", query.Get("limit"), query.Get("resourceVersion"))
		limit = 1
	}
	slices.SortFunc(items, func(a, b ServiceEntry) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	first, _ := strconv.Atoi(query.Get("continue")) // none is 0
	end := min(first+limit, len(items))
	list := &serviceEntryList{
		TypeMeta: metav1.TypeMeta{APIVersion: groupVersion.String(), Kind: kind + "List"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}, Items: items[first:end],
	}
	if end < len(items) {
		list.Continue = strconv.Itoa(end)
	}
	return list
}

func (s *apiServer) stream(w http.ResponseWriter, ctx context.Context, events chan string) {
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for {
		select {
		case event, open := <-events:
			if !open {
				return
			}
			fmt.Fprintln(w, event)
			w.(http.Flusher).Flush()
		case <-ctx.Done():
			s.mu.Lock()
			delete(s.watchers, events)
			s.mu.Unlock()
			return
		}
	}
}

// run starts an index, with short pauses, and stops it at the end of the test.
func (s *apiServer) run(x *Index) {
	s.t.Helper()
	for _, w := range x.watches {
		w.pause.Duration, w.pause.Cap = time.Millisecond, 5*time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- x.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				s.t.Errorf("Start: %v", err)
			}
		case <-time.After(5 * time.Second):
			s.t.Error("Start goes on after its context has ended")
		}
	})
}

// eventually waits until what is true, for at most 5 seconds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5s: %s", what)
		}
	}
}

// running is an applier with its index, in sync with a server.
func running(t *testing.T) (*apiServer, *Applier) {
	t.Helper()
	s := newAPIServer(t)
	client := s.client()
	x := NewIndex(client, nil, slog.New(slog.DiscardHandler))
	a := New(client, x)
	s.run(x)
	eventually(t, "the index is synced", x.Synced)
	return s, a
}

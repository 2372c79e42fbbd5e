package kubectl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"text/template"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// api is the part of an API server that the plugin talks to.
type api struct {
	objects []*unstructured.Unstructured
	// ill is what is wrong with it, in commandAPI's words.
	ill atomic.Value
	// asked gets something with each request.
	asked chan struct{}
}

// pageLimit is the most that a page has, whatever is asked for.
const pageLimit = 2

// startAPI serves testdata/objects.yaml, and the objects.yaml of the script if it
// has one, and writes a kubeconfig for the server.
func startAPI(env *testscript.Env) error {
	now := time.Now()
	objects, err := readObjects("testdata/objects.yaml", now)
	if err != nil {
		return err
	}
	more, err := readObjects(filepath.Join(env.WorkDir, "objects.yaml"), now)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	a := &api{objects: append(objects, more...), asked: make(chan struct{}, 1000)}
	a.ill.Store("")
	server := httptest.NewServer(a)
	env.Defer(server.Close)
	config := filepath.Join(env.WorkDir, "kubeconfig")
	text := fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q}}, {name: gone, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: test, user: {token: hunter2}}]
contexts:
- {name: test, context: {cluster: test, user: test, namespace: demo}}
- {name: gone, context: {cluster: gone, user: test}}
current-context: test
`, server.URL)
	env.Setenv("KUBECONFIG", config)
	env.Setenv("GORACE", "atexit_sleep_ms=10") // a second otherwise, for each command
	env.Values[api{}.key()] = a
	return os.WriteFile(config, []byte(text), 0o600)
}

func (api) key() string { return "api" }

// commandAPI makes the API server ill, or waits until it is asked something:
// api bare (without BalancePolicy), forbid, forbid-pods, refuse, hang, well, asked.
func commandAPI(ts *testscript.TestScript, _ bool, args []string) {
	a := ts.Value(api{}.key()).(*api)
	switch {
	case len(args) == 1 && args[0] == "well":
		a.ill.Store("")
	case len(args) == 1 && args[0] == "asked":
		<-a.asked
	case len(args) == 1:
		for len(a.asked) > 0 {
			<-a.asked
		}
		a.ill.Store(args[0])
	default:
		ts.Fatalf("usage: api bare|forbid|forbid-pods|refuse|hang|well|asked")
	}
}

// readObjects reads YAML documents in which {{ago "2m30s"}} is a time.
func readObjects(name string, now time.Time) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(name).Funcs(template.FuncMap{"ago": func(span string) (string, error) {
		d, err := time.ParseDuration(span)
		return now.Add(-d).UTC().Format(time.RFC3339), err
	}}).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var filled bytes.Buffer
	if err := parsed.Execute(&filled, nil); err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(filled.String(), "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return nil, err
		}
		if o != nil {
			objects = append(objects, &unstructured.Unstructured{Object: o})
		}
	}
	return objects, nil
}

var resources = map[string]string{"balancepolicies": "BalancePolicy", "pods": "Pod", "services": "Service"}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case a.asked <- struct{}{}:
	default:
	}
	namespace, resource, name := parsePath(r.URL.Path)
	kind := resources[resource]
	switch a.ill.Load() {
	case "forbid":
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(`%s.taper.dev is forbidden: User "eve" cannot list resource`, resource))
		return
	case "forbid-pods":
		if kind == "Pod" {
			fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "pods is forbidden")
			return
		}
	case "refuse":
		fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		return
	case "hang":
		<-r.Context().Done()
		return
	}
	if kind == "" || (a.ill.Load() == "bare" && kind == "BalancePolicy") {
		http.NotFound(w, r)
		return
	}
	found := slices.DeleteFunc(slices.Clone(a.objects), func(o *unstructured.Unstructured) bool {
		return o.GetKind() != kind || (namespace != "" && o.GetNamespace() != namespace) || (name != "" && o.GetName() != name)
	})
	w.Header().Set("Content-Type", "application/json")
	switch {
	case name == "":
		a.list(w, r, kind, found)
	case len(found) == 0:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", resource, name))
	default:
		json.NewEncoder(w).Encode(found[0].Object)
	}
}

// list answers with one page.
func (a *api) list(w http.ResponseWriter, r *http.Request, kind string, found []*unstructured.Unstructured) {
	list := unstructured.UnstructuredList{Object: map[string]any{"kind": kind + "List", "apiVersion": "v1"}}
	if kind == "BalancePolicy" {
		list.SetAPIVersion("taper.dev/v1alpha1")
	}
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		list.SetKind("PartialObjectMetadataList")
		list.SetAPIVersion("meta.k8s.io/v1")
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	to := len(found)
	if r.URL.Query().Has("limit") && to > from+pageLimit {
		to = from + pageLimit
		list.SetContinue(strconv.Itoa(to))
	}
	for _, o := range found[from:to] {
		list.Items = append(list.Items, *o)
	}
	data, err := list.MarshalJSON()
	if err != nil {
		panic(err)
	}
	w.Write(data)
}

// parsePath splits .../namespaces/NAMESPACE/RESOURCE/NAME and .../RESOURCE.
func parsePath(path string) (namespace, resource, name string) {
	path = strings.TrimPrefix(strings.TrimPrefix(path, "/apis/taper.dev/v1alpha1/"), "/api/v1/")
	if rest, ok := strings.CutPrefix(path, "namespaces/"); ok {
		namespace, path, _ = strings.Cut(rest, "/")
	}
	resource, name, _ = strings.Cut(path, "/")
	return namespace, resource, name
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

package envoystats

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	body, err := os.ReadFile("testdata/clusters.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(body, "fib")
	if err != nil {
		t.Fatal(err)
	}
	// The third host is a pipe, the fourth lacks rq_active.
	want := map[string]host{"127.0.0.1:8001": {requests: 1234, active: 7}, "[::1]:8002": {}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(host{})); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	for name, test := range map[string]struct{ body, cluster, fails string }{
		"another cluster":  {string(body), "fibonacci", `cluster "fibonacci" is not known; it knows ["fib" "other"]`},
		"a page":           {"<html>", "fib", "not a list of clusters"},
		"a number too big": {`{"cluster_statuses":[{"name":"fib","host_statuses":[{"stats":[{"name":"rq_total","value":"18446744073709551616"}]}]}]}`, "fib", "not a list of clusters"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse([]byte(test.body), test.cluster); err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%v; want an error with %q", err, test.fails)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	body, err := os.ReadFile("testdata/clusters.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"cluster_statuses":[{"name":"fib","host_statuses":[null,{"address":null,"stats":[null]}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		hosts, err := parse(body, "fib")
		if err != nil && hosts != nil {
			t.Errorf("both hosts and an error: %v, %v", hosts, err)
		}
		for address := range hosts {
			if !strings.Contains(address, ":") {
				t.Errorf("address %q has no port", address)
			}
		}
	})
}

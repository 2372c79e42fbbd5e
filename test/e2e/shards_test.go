//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"taper.dev/taper/test/cluster"
)

// shardDifferences are the fields of istiod's endpoints in which an entry's differ from
// a pod's, and none else may.
var shardDifferences = []string{
	"HealthStatus",           // an entry's is unknown, which Envoy takes for healthy
	"LbWeight",               // what it is about
	"LegacyClusterPortKey",   // the port's number, for clusters that are built of entries
	"NodeName",               // read for internalTrafficPolicy: Local, which is refused
	"SendUnhealthyEndpoints", // of the pod, should it become so
	"WorkloadName",           // of telemetry
}

// compareShards compares what istiod keeps of pods with what it keeps of entries.
func compareShards(t *testing.T, istiod *cluster.Istiod, services []*corev1.Service, pods int) {
	t.Helper()
	text, err := fetch(t.Context(), istiod.DebugURL+"/debug/endpointz")
	must(t, err)
	var shards map[string]map[string]struct {
		Shards map[string][]map[string]any
	}
	must(t, json.Unmarshal([]byte(text), &shards))
	differences := map[string]bool{}
	compared := 0
	for _, service := range services {
		of := shards[service.Name+"."+namespace+".svc.cluster.local"][namespace].Shards
		own := byAddressAndPort(slices.DeleteFunc(of["Kubernetes/Kubernetes"], unhealthy))
		entries := byAddressAndPort(of["External/Kubernetes"])
		if len(own) != pods*len(service.Spec.Ports) || len(entries) != len(own) {
			t.Fatalf("istiod knows %d endpoints of service %s, and %d of its entries; its shards are %v", len(own), service.Name, len(entries), slices.Sorted(maps.Keys(of)))
		}
		for key, pod := range own {
			compared++
			compareEndpoint(t, key, pod, entries[key], differences)
		}
	}
	if got := slices.Sorted(maps.Keys(differences)); !slices.Equal(got, shardDifferences) {
		t.Errorf("after %d comparisons, entries differ from pods in %v, want %v", compared, got, shardDifferences)
	}
}

// unhealthy tells a pod that is not ready: istiod's number for it.
func unhealthy(endpoint map[string]any) bool { return endpoint["HealthStatus"] == 2.0 }

func byAddressAndPort(endpoints []map[string]any) map[string]map[string]any {
	m := map[string]map[string]any{}
	for _, e := range endpoints {
		m[fmt.Sprintf("%v %v %v", e["Addresses"], e["ServicePortName"], e["EndpointPort"])] = e
	}
	return m
}

// compareEndpoint notes the fields that differ. Of labels, two may: an entry has to say
// of a pod that it takes no mutual TLS, and does not say that a network has no name.
func compareEndpoint(t *testing.T, key string, pod, entry map[string]any, differences map[string]bool) {
	t.Helper()
	fields := map[string]bool{}
	for _, m := range []map[string]any{pod, entry} {
		for field := range m {
			fields[field] = true
		}
	}
	for field := range fields {
		switch {
		case reflect.DeepEqual(pod[field], entry[field]):
		case field == "Labels":
			was, is := maps.Clone(pod[field].(map[string]any)), maps.Clone(entry[field].(map[string]any))
			if was["topology.istio.io/network"] == "" {
				delete(was, "topology.istio.io/network")
			}
			if was["security.istio.io/tlsMode"] == nil && is["security.istio.io/tlsMode"] == "disabled" {
				delete(is, "security.istio.io/tlsMode")
			}
			if !reflect.DeepEqual(was, is) {
				t.Errorf("endpoint %s has labels\n%v\nand its entry\n%v", key, was, is)
			}
		case slices.Contains(shardDifferences, field):
			differences[field] = true
		default:
			t.Errorf("endpoint %s has %s %v, and its entry %v", key, field, pod[field], entry[field])
		}
	}
}

package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// metricsAddress is where metrics-server listens: EndpointSlices refuse loopback.
const metricsAddress = "10.9.0.1"

// metricsAPI registers metrics-server with the API server's aggregation layer. The
// service has no selector: the slice is all that says where it is.
const metricsAPI = `
apiVersion: v1
kind: Service
metadata: {namespace: kube-system, name: metrics-server}
spec:
  ports: [{name: https, port: 443}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: kube-system
  name: metrics-server
  labels: {kubernetes.io/service-name: metrics-server}
addressType: IPv4
ports: [{name: https, port: %d}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  service: {namespace: kube-system, name: metrics-server}
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
`

// StartMetricsServer runs metrics-server and returns when the API server serves
// metrics.k8s.io. It asks each node's kubelet every 10 seconds, which is as often as
// it can: see [Cluster.StartKubelet]. A pod has metrics after two answers.
func (c *Cluster) StartMetricsServer(ctx context.Context) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.KubeconfigFor(Admin)
	if err != nil {
		return nil, err
	}
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	s := &Server{
		name: "metrics-server",
		path: "metrics-server",
		args: []string{
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + metricsAddress, "--secure-port=" + strconv.Itoa(port),
			"--cert-dir=" + filepath.Join(c.dir, "metrics-server"),
			"--metric-resolution=10s", "--kubelet-request-timeout=5s",
			"--kubelet-insecure-tls", "--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port",
		},
		probe: probe(insecure, "https://"+net.JoinHostPort(metricsAddress, strconv.Itoa(port))+"/livez"),
	}
	if err := c.run(ctx, s); err != nil {
		return nil, err
	}
	if err := c.Apply(ctx, fmt.Appendf(nil, metricsAPI, port, metricsAddress)); err != nil {
		return nil, err
	}
	return s, Eventually(ctx, readyWithin, "metrics.k8s.io is served", func(ctx context.Context) error {
		return c.available(ctx, "v1beta1.metrics.k8s.io")
	})
}

// available is nil once the aggregation layer has reached an APIService.
func (c *Cluster) available(ctx context.Context, name string) error {
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
	}}
	if err := c.client.Get(ctx, client.ObjectKey{Name: name}, service); err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(service.Object, "status", "conditions")
	if err != nil {
		return err
	}
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["type"] == "Available" {
			if c["status"] == "True" {
				return nil
			}
			return fmt.Errorf("%v: %v", c["reason"], c["message"])
		}
	}
	return errors.New("nothing is known of it yet")
}

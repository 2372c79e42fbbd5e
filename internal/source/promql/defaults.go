package promql

// What to read in a cluster where nothing else is known: cAdvisor's CPU, which
// every kubelet has, and the counters of Istio's sidecars. Both have the labels
// namespace and pod from the usual scrape configurations: Istio's own, and those of
// the Prometheus and VictoriaMetrics operators.
var (
	// ClusterCPU is the CPU of a pod's own containers.
	//
	// Each matcher keeps something from being counted twice or in error:
	//   - container!="" leaves out the pod's cgroup, which is the sum of the others,
	//     and the pause container where containerd runs it.
	//   - container!="POD" leaves out the pause container elsewhere.
	//   - image!="" leaves out the kubelet's /metrics/resource, which has a series of
	//     the same name for each container. Stacks that scrape it beside
	//     /metrics/cadvisor exist, and the sum would be twice the usage. A store that
	//     has only /metrics/resource wants a selector without it.
	//   - container!="istio-proxy" leaves out the sidecar. Its limit, of two cores by
	//     default, is not what the application can use, and a proxy that is busy with
	//     the pod's own calls does not make the pod a slow one.
	ClusterCPU = Metric{
		Selector: `container_cpu_usage_seconds_total{container!="",container!="POD",container!="istio-proxy",image!=""}`,
		Type:     Counter,
	}
	// ClusterRequests is the rate of requests that a pod's sidecar let in, whatever
	// became of them. The client's sidecar counts the same requests, as reporter
	// "source" and under its own pod's name.
	ClusterRequests = Metric{
		Selector: `istio_requests_total{reporter="destination"}`,
		Type:     Counter,
	}
	// ClusterInFlight is the mean number of requests that a pod is busy with: the
	// durations of requests, summed up, rise by as much a second as there are
	// requests in flight (Little's law). A duration is added when the request ends,
	// so streams that last longer than the window show up late and all at once; a
	// service of such streams wants this metric off.
	ClusterInFlight = Metric{
		Selector: `istio_request_duration_milliseconds_sum{reporter="destination"}`,
		Type:     Counter,
		Scale:    0.001,
	}
)

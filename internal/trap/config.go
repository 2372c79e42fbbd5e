package trap

import "time"

// Resolv is what of a resolv.conf matters.
type Resolv struct {
	Nameservers []string
	Search      []string
	Ndots       int // 1 when the file does not say
	Options     []string
}

// Pod is what of a pod's manifest matters.
type Pod struct {
	Name, Namespace string
	// CPULimit is in cores, by container; absent where there is none. The limit of the
	// pod as a whole is under "".
	CPULimit map[string]float64
	// PreStop says that each container has a preStop hook; TerminationGrace is its period.
	PreStop          bool
	TerminationGrace time.Duration
	// DNS is what the kubelet writes to the pod's resolv.conf, as far as the manifest
	// says: without the nameservers of the cluster. It is nil when the pod takes the
	// node's. HostNetwork is as in the manifest.
	DNS            *Resolv
	HostNetwork    bool
	ServiceAccount string
}

// CPUStat is a cgroup's cpu.stat, of version 1 or 2.
type CPUStat struct {
	Periods, Throttled uint64
	ThrottledTime      time.Duration
}

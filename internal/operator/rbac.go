package operator

// What the operator may do, and for what. config/rbac/role.yaml is generated from
// these lines, and the chart takes its rules from there; docs/operator-install.md
// has the same as a table for those who have to agree to it.

// Policies are read. Their finalizer is set and taken off by a patch; deciding what
// a policy says is up to its owner.
// +kubebuilder:rbac:groups=taper.dev,resources=balancepolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=taper.dev,resources=balancepolicies/status,verbs=patch

// Who is behind a service, and with what labels, account, capacity and locality. Of
// nodes only the metadata is read.
// +kubebuilder:rbac:groups="",resources=services;pods;nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch

// Entries are watched to put back what others change and to find foreign ones, and
// written by server-side apply, which is a patch and a create where there is none.
// Where OwnerReferencesPermissionEnforcement is on, setting their owner takes delete;
// it takes more only for an owner that blocks, which theirs does not.
// +kubebuilder:rbac:groups=networking.istio.io,resources=serviceentries,verbs=get;list;watch;create;patch;delete

// CPU from metrics-server: one list per namespace and cycle.
// +kubebuilder:rbac:groups=metrics.k8s.io,resources=pods,verbs=list

// The Secrets that policies name, one by one. Without list and watch, others cannot
// be found out. The chart can narrow this to namespaces, or leave it out.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// Events about policies; a repeated one is a patch.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// The lease and the events of leader election, in the operator's own namespace. A
// create cannot be limited by name.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=taper-system,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=taper-operator,namespace=taper-system,verbs=get;update
// +kubebuilder:rbac:groups="",resources=events,namespace=taper-system,verbs=create;patch

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/test/cluster"
)

// machine is a node: a network of its own for the host, and one for its pod. Both are
// joined to the program's network, which is the router between them.
type machine struct {
	name      string
	host, pod *network
	// broken nodes cannot pull images.
	broken atomic.Bool
}

type network struct {
	*netns.Namespace
	ip string
}

// machines are the nodes node-0, node-1, … in two zones, as objects and as networks.
func machines(t *testing.T, c *cluster.Cluster, n int) []*machine {
	t.Helper()
	must(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
	var list []*machine
	for i := range n {
		m := &machine{name: fmt.Sprintf("node-%d", i)}
		node := cluster.Node(m.name, "region", fmt.Sprintf("zone-%d", i%2))
		node.Labels[corev1.LabelOSStable] = "linux"
		node.Labels[corev1.LabelInstanceTypeStable] = "m5.large"
		must(t, c.Client().Create(t.Context(), node))
		m.host = joined(t, fmt.Sprintf("host%d", i), fmt.Sprintf("10.8.%d", i))
		m.pod = joined(t, fmt.Sprintf("pod%d", i), fmt.Sprintf("10.7.%d", i))
		list = append(list, m)
	}
	return list
}

// joined is a network at .2 of a prefix, whose way out is .1, which is ours.
func joined(t *testing.T, link, prefix string) *network {
	t.Helper()
	n, err := netns.New()
	must(t, err)
	t.Cleanup(n.Close)
	here, there := netip.MustParsePrefix(prefix+".1/24"), netip.MustParsePrefix(prefix+".2/24")
	must(t, n.Join(netns.End{Name: link, Prefix: here}, netns.End{Name: "eth0", Prefix: there}))
	return &network{n, there.Addr().String()}
}

// controller is what a cluster has beside its API server, as far as agents need it: the
// controllers of DaemonSets and of namespaces, kubelets that run containers as processes
// in the networks of machines, and proxies before Services with session affinity.
type controller struct {
	t        *testing.T
	cluster  *cluster.Cluster
	client   clientset.Interface
	machines []*machine
	binary   string

	mu      sync.Mutex
	running map[string]map[string]*process.Process // by namespace and pod
	last    error
	proxies map[string]net.Listener
	copying sync.WaitGroup
}

// startController runs it until the test ends.
func startController(t *testing.T, c *cluster.Cluster, list []*machine) *controller {
	t.Helper()
	binary, err := filepath.Abs("../../bin/taper")
	must(t, err)
	client, err := clientset.NewForConfig(c.REST())
	must(t, err)
	d := &controller{
		t: t, cluster: c, client: client, machines: list, binary: binary,
		running: map[string]map[string]*process.Process{}, proxies: map[string]net.Listener{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.loop(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		for namespace := range d.running {
			d.stop(namespace)
		}
		for _, l := range d.proxies {
			l.Close()
		}
		d.copying.Wait()
		if t.Failed() && d.last != nil {
			t.Log("the controller's last error:", d.last)
		}
	})
	return d
}

func (d *controller) loop(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := d.reconcile(ctx); err != nil && ctx.Err() == nil {
			d.mu.Lock()
			d.last = err
			d.mu.Unlock()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// count is how many containers run.
func (d *controller) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, pods := range d.running {
		n += len(pods)
	}
	return n
}

// stop ends the containers of a namespace.
func (d *controller) stop(namespace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.running[namespace] {
		p.Stop(5 * time.Second)
	}
	delete(d.running, namespace)
}

func (d *controller) reconcile(ctx context.Context) error {
	namespaces, err := d.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=taper-net"})
	if err != nil {
		return err
	}
	var errs []error
	for i := range namespaces.Items {
		if n := &namespaces.Items[i]; n.DeletionTimestamp != nil {
			errs = append(errs, d.finalize(ctx, n))
		} else {
			errs = append(errs, d.roll(ctx, n.Name), d.proxy(ctx, n.Name))
		}
	}
	return errors.Join(errs...)
}

// finalize empties a namespace that is being deleted, and lets it go.
func (d *controller) finalize(ctx context.Context, n *corev1.Namespace) error {
	d.stop(n.Name)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	err := errors.Join(
		d.client.AppsV1().DaemonSets(n.Name).DeleteCollection(ctx, now, metav1.ListOptions{}),
		d.client.CoreV1().Pods(n.Name).DeleteCollection(ctx, now, metav1.ListOptions{}),
		d.client.CoreV1().Secrets(n.Name).DeleteCollection(ctx, now, metav1.ListOptions{}),
		d.client.CoreV1().Services(n.Name).Delete(ctx, "agents", now),
	)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	n.Spec.Finalizers = nil
	_, err = d.client.CoreV1().Namespaces().Finalize(ctx, n, metav1.UpdateOptions{})
	return err
}

// roll makes the pods of DaemonSets that are missing.
func (d *controller) roll(ctx context.Context, namespace string) error {
	sets, err := d.client.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		if set.Status.ObservedGeneration == set.Generation {
			continue
		}
		for _, m := range d.machines {
			if err := d.run(ctx, set, m); err != nil {
				return err
			}
		}
		set.Status.ObservedGeneration = set.Generation
		set.Status.DesiredNumberScheduled = int32(len(d.machines))
		if _, err := d.client.AppsV1().DaemonSets(namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// run makes a pod, as the DaemonSet has it, and starts its container.
func (d *controller) run(ctx context.Context, set *appsv1.DaemonSet, m *machine) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: set.Name + "-" + m.name, Labels: set.Spec.Template.Labels},
		Spec:       *set.Spec.Template.Spec.DeepCopy(),
	}
	pod.Spec.NodeName = m.name
	made, err := d.client.CoreV1().Pods(set.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	where := m.pod
	if made.Spec.HostNetwork {
		where = m.host
	}
	if m.broken.Load() {
		made.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name:  made.Spec.Containers[0].Name,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "there is no such image"}},
		}}}
	} else {
		if err := d.start(ctx, made, where); err != nil {
			return err
		}
		made.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: where.ip, PodIPs: []corev1.PodIP{{IP: where.ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
	}
	_, err = d.client.CoreV1().Pods(set.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// start runs the container of a pod, with its arguments, as its user, and waits until its
// port answers, as its startup probe does.
func (d *controller) start(ctx context.Context, pod *corev1.Pod, where *network) error {
	container := pod.Spec.Containers[0]
	secret, err := d.client.CoreV1().Secrets(pod.Namespace).Get(ctx, pod.Spec.Volumes[0].Secret.SecretName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mount-")
	if err != nil {
		return err
	}
	user := fmt.Sprint(*pod.Spec.SecurityContext.RunAsUser)
	for name, value := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o444); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	args := []string{"--net=" + where.Path(), "setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups", "--bounding-set=-all", "--no-new-privs", d.binary}
	for _, a := range container.Args {
		a = strings.ReplaceAll(a, "$(NODE_NAME)", pod.Spec.NodeName)
		args = append(args, strings.ReplaceAll(a, container.VolumeMounts[0].MountPath, dir))
	}
	nsenter, err := process.Lookup("nsenter", "install util-linux")
	if err != nil {
		return err
	}
	p, err := process.Start(process.Spec{Name: pod.Name, Path: nsenter, Args: args, Log: filepath.Join(d.cluster.Dir(), pod.Namespace+"-"+pod.Name+".log")})
	if err != nil {
		return err
	}
	d.mu.Lock()
	if d.running[pod.Namespace] == nil {
		d.running[pod.Namespace] = map[string]*process.Process{}
	}
	d.running[pod.Namespace][pod.Name] = p
	d.mu.Unlock()
	address := hostPort(where.ip, container.Ports[0].ContainerPort)
	return cluster.Eventually(ctx, withinDefault, pod.Name+" listens", func(ctx context.Context) error {
		if err := p.Err(); err != nil {
			return cluster.Final(err)
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// proxy makes the addresses of Services ours, and leads what comes there to a pod: always
// the same for who asks, and of each port on its own, as kube-proxy does.
func (d *controller) proxy(ctx context.Context, namespace string) error {
	services, err := d.client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, s := range services.Items {
		for i, port := range s.Spec.Ports {
			address := hostPort(s.Spec.ClusterIP, port.Port)
			if d.proxies[address] != nil {
				continue
			}
			if i == 0 {
				if err := netns.Own(netip.MustParseAddr(s.Spec.ClusterIP)); err != nil {
					return err
				}
			}
			l, err := net.Listen("tcp", address)
			if err != nil {
				return err
			}
			d.proxies[address] = l
			d.copying.Go(func() { d.balance(l) })
		}
	}
	return nil
}

func (d *controller) balance(l net.Listener) {
	chosen := map[string]string{}
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		from := conn.RemoteAddr().(*net.TCPAddr).IP.String()
		if chosen[from] == "" {
			m := d.machines[rand.IntN(len(d.machines))]
			for m.broken.Load() {
				m = d.machines[rand.IntN(len(d.machines))]
			}
			chosen[from] = hostPort(m.pod.ip, 4000)
		}
		to, err := net.Dial("tcp", chosen[from])
		if err != nil {
			conn.Close()
			continue
		}
		for _, way := range [][2]net.Conn{{conn, to}, {to, conn}} {
			d.copying.Go(func() {
				_, _ = io.Copy(way[0], way[1]) // whoever asks sees that it ended
				_ = way[0].(*net.TCPConn).CloseWrite()
			})
		}
	}
}

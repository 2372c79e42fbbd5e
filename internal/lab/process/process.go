// Package process runs child processes that never outlive their parent: a
// child that is left behind would hold a port and skew the next measurement.
//
// A [Spec] goes in, a running [Process] comes out. [Await] waits until it can
// be used, [Process.CPUTime] tells what it has cost, [Process.Stop] ends it.
// A child that dies by itself says why: [Process.Err] quotes the end of its log.
//
// Three things keep a child from staying: its own process group, which Stop
// signals as a whole; a SIGKILL to the group when its leader is gone; and the
// parent-death signal, which the kernel sends when taper itself is killed. That
// one reaches only the child, not what the child has started.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Spec says what to run.
type Spec struct {
	// Name is what errors call the process, such as "envoy lab-01".
	Name string
	// Path is the executable; see [Lookup].
	Path string
	Args []string
	// Dir is the working directory; ours when empty.
	Dir string
	// Env is the whole environment; ours when nil.
	Env []string
	// Log is the file that standard output and error go to. It is truncated.
	Log string
}

// Process is a child that was started. Its methods may be called at any time
// and from any goroutine.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd

	stop     chan struct{} // closed once Stop was asked for
	stopOnce sync.Once
	done     chan struct{}
	err      error // set before done is closed

	mu     sync.Mutex
	reaped bool // the number is free, and may soon be another group's
	cpu    map[int]time.Duration
}

// Start runs the process in a group of its own. It returns once the executable
// is running, which is before it is ready; see [Await].
func Start(spec Spec) (*Process, error) {
	log, err := os.Create(spec.Log)
	if err != nil {
		return nil, fmt.Errorf("starting %s: creating its log: %w", spec.Name, err)
	}
	defer log.Close() // the child has its own descriptor

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Env = spec.Env
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	p := &Process{
		name: spec.Name,
		log:  spec.Log,
		cmd:  cmd,
		stop: make(chan struct{}),
		done: make(chan struct{}),
		cpu:  make(map[int]time.Duration),
	}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	return p, nil
}

// run starts the child and waits for its end on one and the same thread: the
// kernel sends the parent-death signal when the thread that forked is gone,
// and the Go runtime may end an idle thread at any time (golang/go#27505).
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.awaitExit()
	if err := p.reap(); !p.stopped() {
		p.err = p.died(err)
	}
	close(p.done)
}

// awaitExit returns when the child has exited, and leaves it to be reaped.
func (p *Process) awaitExit() {
	for {
		err := unix.Waitid(unix.P_PID, p.PID(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reap kills what the dead leader leaves behind, and then gives up its number.
func (p *Process) reap() error {
	p.signal(syscall.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return p.cmd.Wait()
}

func (p *Process) stopped() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

// died describes the end of a child that was not asked to end.
func (p *Process) died(err error) error {
	if err == nil {
		err = errors.New("exit status 0")
	}
	if lines := lastLines(p.log); lines != "" {
		return fmt.Errorf("%s died: %w: %s", p.name, err, lines)
	}
	return fmt.Errorf("%s died: %w, its log %s is empty", p.name, err, p.log)
}

// PID is the process's number, and that of its process group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and its group was killed.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says why the process ended by itself, with the last lines of its log.
// It is nil while the process runs, and when it was ended by Stop.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop asks the process group to end (SIGTERM), kills what is left of it after
// grace (SIGKILL), and returns when the process has ended. It may be called
// more than once.
func (p *Process) Stop(grace time.Duration) {
	p.stopOnce.Do(func() { close(p.stop) })
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.signal(syscall.SIGKILL)
		<-p.done
	}
}

// signal sends to the whole group, as long as the number is still the group's.
func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.PID(), s) // fails only when the group is gone
	}
}

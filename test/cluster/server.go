package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"taper.dev/taper/internal/lab/process"
)

const (
	// readyWithin is far above what a start takes, also on a busy machine.
	readyWithin = 90 * time.Second
	// stopGrace is how long an orderly end may take.
	stopGrace = 30 * time.Second
)

// Server is a part of the control plane: a child process that can be ended and
// started again. Ports and data stay the same. Its methods may be called from any
// goroutine; those that change something wait for each other.
type Server struct {
	name  string
	path  string
	args  []string
	env   []string
	dir   string // for logs
	probe func(context.Context) error

	changing sync.Mutex
	starts   int
	running  atomic.Pointer[process.Process] // nil after Stop and Kill
}

// Start runs the server and returns when it is ready. It does nothing while the
// server runs.
func (s *Server) Start(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.running.Load() != nil && s.Err() == nil {
		return nil
	}
	s.starts++
	p, err := process.Start(process.Spec{
		Name: s.name,
		Path: s.path,
		Args: s.args,
		Dir:  s.dir,
		Env:  s.env,
		Log:  s.log(),
	})
	if err != nil {
		return err
	}
	if err := process.Await(ctx, p, s.probe, readyWithin); err != nil {
		p.Stop(0)
		return err
	}
	s.running.Store(p)
	return nil
}

// log is a file of its own for each start, for a restart to be understood.
func (s *Server) log() string {
	return filepath.Join(s.dir, fmt.Sprintf("%s.%d.log", s.name, s.starts))
}

// Stop asks the server to end and returns when it has.
func (s *Server) Stop() {
	s.changing.Lock()
	defer s.changing.Unlock()
	if p := s.running.Swap(nil); p != nil {
		p.Stop(stopGrace)
	}
}

// Kill ends the server as a crash does, without a chance to say goodbye.
func (s *Server) Kill() {
	s.changing.Lock()
	defer s.changing.Unlock()
	if p := s.running.Swap(nil); p != nil {
		send(p, syscall.SIGKILL)
		<-p.Done()
	}
}

// Pause makes the server hang: connections stay open and are not answered.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if p := s.running.Load(); p != nil {
		send(p, sig)
	}
}

// send signals the process's group, unless it has ended by itself.
func send(p *process.Process, sig syscall.Signal) {
	select {
	case <-p.Done():
	default:
		_ = syscall.Kill(-p.PID(), sig) // fails only when it is gone
	}
}

// Err says why the server ended by itself, with the end of its log. It is nil while
// the server runs, and after Stop and Kill.
func (s *Server) Err() error {
	if p := s.running.Load(); p != nil {
		return p.Err()
	}
	return nil
}

// PID is the number of the server's process; 0 while it does not run.
func (s *Server) PID() int {
	if p := s.running.Load(); p != nil {
		return p.PID()
	}
	return 0
}

// CPUTime is the time that the running server has spent on a CPU.
func (s *Server) CPUTime() (time.Duration, error) {
	if p := s.running.Load(); p != nil {
		return p.CPUTime()
	}
	return 0, fmt.Errorf("reading the CPU time of %s: it does not run", s.name)
}

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPUTime is the time that the process and its descendants have spent on a CPU,
// to the nanosecond. It only rises: a thread that has ended counts with what
// was last read of it. It needs no privileges, and fails once the process has
// ended.
func (p *Process) CPUTime() (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return 0, fmt.Errorf("reading the CPU time of %s: it has ended", p.name)
	}
	if err := p.account(p.PID()); err != nil {
		return 0, fmt.Errorf("reading the CPU time of %s: %w", p.name, err)
	}
	var total time.Duration
	for _, t := range p.cpu {
		total += t
	}
	return total, nil
}

// account notes the CPU time of each thread of a process and of its
// descendants. One that ends meanwhile is passed over.
func (p *Process) account(pid int) error {
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return unlessGone(err)
	}
	for _, thread := range threads {
		dir := filepath.Join(tasks, thread.Name())
		if err := p.accountThread(dir); err != nil {
			return unlessGone(err)
		}
		children, err := os.ReadFile(filepath.Join(dir, "children"))
		if err != nil {
			return unlessGone(err)
		}
		for child := range strings.FieldsSeq(string(children)) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				return fmt.Errorf("%s/children: %w", dir, err)
			}
			if err := p.account(pid); err != nil {
				return err
			}
		}
	}
	return nil
}

// accountThread reads the first field of schedstat: nanoseconds on a CPU. The
// clock of /proc/PID/stat counts in steps of 10 ms, longer than a request.
func (p *Process) accountThread(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "schedstat"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), " ")
	ns, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return fmt.Errorf("%s/schedstat: %w", dir, err)
	}
	tid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	p.cpu[tid] = max(p.cpu[tid], time.Duration(ns))
	return nil
}

// unlessGone is nil for the error of a process that has ended.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

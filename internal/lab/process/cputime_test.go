package process

import (
	"testing"
	"time"
)

func cpuTime(t *testing.T, p *Process) time.Duration {
	t.Helper()
	got, err := p.CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestCPUTimeCountsDescendants(t *testing.T) {
	// The leader and its child only wait; the grandchild works.
	p := startShell(t, `(sh -c 'while :; do :; done'; :) & wait`)
	eventually(t, "50 ms of CPU time", func() bool { return cpuTime(t, p) > 50*time.Millisecond })
}

func TestCPUTimeNeverFalls(t *testing.T) {
	p := startShell(t, `timeout 0.3 sh -c 'while :; do :; done'; echo $$; sleep 60`)
	var last time.Duration
	for range 20 {
		now := cpuTime(t, p)
		if now < last {
			t.Fatalf("fell from %v to %v", last, now)
		}
		last = now
		time.Sleep(5 * time.Millisecond)
	}
	printedPID(t, p) // the child that worked is gone
	if now := cpuTime(t, p); now < last {
		t.Errorf("fell from %v to %v when a child ended", last, now)
	}
}

func TestCPUTimeOfAnEndedProcess(t *testing.T) {
	p := startShell(t, `exit 0`)
	<-p.Done()
	if got, err := p.CPUTime(); err == nil {
		t.Errorf("CPUTime() = %v, want an error", got)
	}
}

package socket

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestCPUGroups(t *testing.T) {
	t.Parallel()
	const (
		one  = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
		two  = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
		both = one + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		// A container that sees the host's names, with its own group mounted.
		own = "33 31 0:30 /kubepods/pod1/c2 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
	)
	for _, c := range []struct {
		name, groups, mounts string
		want                 []string
	}{
		{"version 2", "0::/user.slice/a.service\n", two, []string{"/sys/fs/cgroup/user.slice/a.service", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}},
		{"version 2, in a namespace", "0::/\n", two, []string{"/sys/fs/cgroup"}},
		{"version 2, above its namespace", "0::/../other\n", two, []string{"/sys/fs/cgroup/other", "/sys/fs/cgroup"}},
		{"version 1", "5:cpuset:/x\n4:cpu,cpuacct:/kubepods/pod1\n", one, []string{"/sys/fs/cgroup/cpu,cpuacct/kubepods/pod1", "/sys/fs/cgroup/cpu,cpuacct/kubepods", "/sys/fs/cgroup/cpu,cpuacct"}},
		{"both", "4:cpu,cpuacct:/a\n0::/b\n", both, []string{"/sys/fs/cgroup/cpu,cpuacct/a", "/sys/fs/cgroup/cpu,cpuacct"}},
		{"its own mount", "1:cpu:/kubepods/pod1/c2\n", own, []string{"/sys/fs/cgroup/cpu"}},
		{"below its own mount", "1:cpu:/kubepods/pod1/c2/d\n", own, []string{"/sys/fs/cgroup/cpu/d", "/sys/fs/cgroup/cpu"}},
		{"a mount of another", "1:cpu:/kubepods/pod1/c22\n", own, []string{"/sys/fs/cgroup/cpu"}},
		{"no mount", "0::/a\n", "", nil},
		{"no group", "", both, nil},
		{"nonsense", "\x00:\n::\n9\n", "a b c - d\n - \n", nil},
	} {
		if got := cpuGroups(c.groups, c.mounts); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q; want %q", c.name, got, c.want)
		}
	}
}

func FuzzCPUGroups(f *testing.F) {
	f.Add("0::/a/b\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "nr_throttled 3\nthrottled_usec 17\n")
	f.Add("4:cpu:/../..\n", "33 31 0:30 /x /c rw - cgroup cgroup rw,cpu\n", "throttled_time 99999999999999999999\n")
	f.Fuzz(func(t *testing.T, groups, mounts, stat string) {
		if dirs := cpuGroups(groups, mounts); len(dirs) > len(groups)+1 {
			t.Errorf("%d directories", len(dirs))
		}
		if d, ok := throttledTime(stat); ok && d < 0 {
			t.Errorf("throttled for %v", d)
		}
	})
}

func TestThrottledTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"nr_periods 9\nnr_throttled 2\nthrottled_time 1500\nnr_bursts 0\n": 1500,
		"usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\n":              1500 * time.Microsecond,
		"usage_usec 5\nuser_usec 3\n":                                      -1,
		"throttled_usec many\n":                                            -1,
		"throttled_usec 9223372036854775807\n":                             -1,
		"throttled_usec -1\n":                                              -1,
		"":                                                                 -1,
	} {
		got, ok := throttledTime(text)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: got %v, %v", text, got, ok)
		}
	}
}

func TestLongest(t *testing.T) {
	t.Parallel()
	if got := longest([]time.Duration{1, 10}, []time.Duration{4, 11}); got == nil || *got != 3 {
		t.Errorf("got %v", got)
	}
	for _, c := range [][2][]time.Duration{{nil, nil}, {{1}, nil}, {{1}, {2, 3}}} {
		if got := longest(c[0], c[1]); got != nil {
			t.Errorf("%v: got %v", c, *got)
		}
	}
}

// TestStep: only what the time of day does by itself is a step.
func TestStep(t *testing.T) {
	t.Parallel()
	now := time.Now()
	if got := step(now, now.Add(time.Hour)); got != 0 {
		t.Errorf("an hour that passes is a step of %v", got)
	}
	for _, c := range []struct{ day, passed, want time.Duration }{
		{time.Hour, time.Second, time.Hour - time.Second},
		{-time.Hour, time.Second, -time.Hour - time.Second},
		{time.Second + 900*time.Microsecond, time.Second, 0}, // the two were not read at once
	} {
		if got := jump(c.day, c.passed); got != c.want {
			t.Errorf("%v in %v: got %v; want %v", c.day, c.passed, got, c.want)
		}
	}
}

func TestLastCPU(t *testing.T) {
	t.Parallel()
	if _, ok := lastCPU("/proc/self/stat"); !ok {
		t.Error("nobody knows where this is")
	}
	for name, text := range map[string]string{
		"short": "1 (a) b c", "nothing": "", "no number": "1 (a b) c) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 x",
	} {
		path := t.TempDir() + "/stat"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if cpu, ok := lastCPU(path); ok {
			t.Errorf("%s: it is on %d", name, cpu)
		}
	}
}

// TestThrottled: a process that may have a tenth of a CPU says for how long it had none.
func TestThrottled(t *testing.T) {
	const variable = "TAPER_TEST_THROTTLED"
	if dir := os.Getenv(variable); dir != "" {
		throttle(t, dir)
		return
	}
	if os.Geteuid() != 0 {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatal("limiting CPU needs root")
		}
		t.Skip("limiting CPU needs root")
	}
	dir := fmt.Sprintf("/sys/fs/cgroup/cpu/taper-test-%d", os.Getpid())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("there is no version 1 of control groups to be had: %v", err)
	}
	defer func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}()
	self := exec.Command("/proc/self/exe", "-test.run=^TestThrottled$", "-test.v")
	self.Env = append(os.Environ(), variable+"="+dir)
	if out, err := self.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// throttle limits this very process.
func throttle(t *testing.T, dir string) {
	for _, setting := range [][2]string{{"cpu.cfs_period_us", "20000"}, {"cpu.cfs_quota_us", "2000"}, {"cgroup.procs", strconv.Itoa(os.Getpid())}} {
		if err := os.WriteFile(dir+"/"+setting[0], []byte(setting[1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	usage, err := Thread(nil, func() error {
		for started := time.Now(); time.Since(started) < 300*time.Millisecond; {
		}
		return nil
	})
	if err != nil || usage.Throttled == nil || *usage.Throttled < 100*time.Millisecond {
		t.Errorf("%+v, %v, throttled for %v", usage, err, usage.Throttled)
	}
}

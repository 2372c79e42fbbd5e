package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/lab/network"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
	"taper.dev/taper/internal/terminal"
)

// needNetworks skips the test where networks of its own cannot be made.
func needNetworks(t *testing.T) {
	t.Helper()
	need(t, "envoy", `run "make tools"`)
	need(t, "nsenter", "install util-linux")
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
		t.Fatal("networks of their own need root")
	}
	t.Skip("networks of their own need root")
}

// The whole story, small: what was made is what is found. A machine that stands still for
// a second hides a bucket, so there is a second try, and a third.
func TestLabNetwork(t *testing.T) {
	needNetworks(t)
	const tries = 3
	for try := 1; ; try++ {
		p := start(t, "lab", "network", "--measure", "4s", "--step", "1s", "--users-max", "4", "--json")
		if code := p.exit(); code != command.ExitDone {
			t.Fatalf("exit code %d", code)
		}
		if left := p.leftovers(); len(left) > 0 {
			t.Errorf("left running: %q", left)
		}
		var r network.Result
		if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
			t.Fatalf("%v in:\n%s", err, p.stdout.String())
		}
		checkPaths(t, &r)
		err := errors.Join(costsOfCopying(&r), bucketIsFound(&r), balancerIsFull(&r))
		if err == nil {
			return
		}
		if try == tries {
			t.Fatal(err)
		}
		t.Log(err)
	}
}

func checkPaths(t *testing.T, r *network.Result) {
	t.Helper()
	mtu := map[string]int{}
	for _, path := range answer.Paths(r.Paths) {
		mtu[path.Name] = path.Conditions.MTU
		if len(path.Tests) != 3 || len(path.Tests[0].Trials) == 0 || len(path.Tests[1].Trials) == 0 {
			t.Errorf("%s: %d tests, or no trials", path.Name, len(path.Tests))
		}
	}
	if mtu["native"] != 1500 || mtu["vxlan"] != 1450 || mtu["user-space"] != 1472 {
		t.Errorf("MTUs are %v", mtu)
	}
}

// costsOfCopying are high: 88 % and more where it was measured.
func costsOfCopying(r *network.Result) error {
	for _, tested := range r.Paths.Others[1].Tests {
		if v := tested.Verdict; tested.Test == probe.TCPBandwidth && (v == nil || v.Ratio <= 0 || v.Ratio > 0.5) {
			return fmt.Errorf("the overlay in user space gives %+v of the native bandwidth", v)
		}
	}
	return nil
}

func bucketIsFound(r *network.Result) error {
	shaping := r.Shaped.Conditions.Shaping
	if shaping == nil {
		return fmt.Errorf("the bucket was not found within %d bytes", r.Shaped.Conditions.ShapingBytes)
	}
	if b, rate := shaping.BucketBytes/50e6, shaping.SustainedBytesPerS/62.5e6; b < .85 || b > 1.15 || rate < .97 || rate > 1.03 {
		return fmt.Errorf("found %.2f of the bucket, and %.2f of the rate", b, rate)
	}
	return nil
}

func balancerIsFull(r *network.Result) error {
	if b := r.Page.Bottleneck; b == nil || b.Hop != "balancer" {
		return fmt.Errorf("the bottleneck is %+v, want the balancer", b)
	}
	return nil
}

// However it ends, no process is left: the kernel takes a network away with the last.
func TestLabNetworkIsGoneHoweverItEnds(t *testing.T) {
	needNetworks(t)
	for name, c := range map[string]struct {
		signal syscall.Signal
		said   string
	}{
		"interrupted": {syscall.SIGINT, "taper: interrupted; nothing is left running\n"},
		"killed":      {syscall.SIGKILL, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir()) // files of one that is killed stay
			p := start(t, "lab", "network")
			waitFor(t, "both agents to run, each in a network of its own", func(context.Context) bool {
				agents := 0
				for _, line := range p.leftovers() {
					if !strings.Contains(line, "nsenter") && strings.Contains(line, "net serve") {
						agents++
					}
				}
				return agents == 2 && p.networks() == 3 // the program has one, too
			})
			p.signal(c.signal)
			p.exit()
			if said := p.said(); said != c.said {
				t.Errorf("it said %q", said)
			}
			// Those of a program that was killed are killed by the kernel, a moment later.
			waitFor(t, "the end of all processes", func(context.Context) bool { return len(p.leftovers()) == 0 })
		})
	}
}

// networks is in how many networks processes of the command run.
func (p *taper) networks() int {
	p.t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		p.t.Fatal(err)
	}
	found := map[string]bool{}
	for _, dir := range processes {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !bytes.Contains(environ, []byte(p.mark+"\x00")) {
			continue
		}
		if network, err := os.Readlink(filepath.Join(dir, "ns/net")); err == nil {
			found[network] = true
		}
	}
	return len(found)
}

func TestLabNetworkPrintsTheStorysTables(t *testing.T) {
	t.Parallel()
	path := func(name string, rate, rtt float64, outcome probe.Outcome, ratio float64) probe.Result {
		half := rtt / 2
		r := probe.Result{Name: name, To: "10.0.0.2", Tests: []probe.TestResult{
			{Test: probe.TCPBandwidth, Direction: probe.Out, BytesPerS: rate, Trials: []float64{rate}},
			{Test: probe.TCPLatency, Direction: probe.Out, MedianUS: rtt, QperfUS: &half, Trials: []float64{rtt}},
		}}
		if outcome != "" {
			r.Tests[0].Verdict = &probe.Verdict{Outcome: outcome, Ratio: ratio, CI: &[2]float64{ratio * .9, ratio * 1.1}, Trials: 10}
			r.Tests[1].Verdict = &probe.Verdict{Outcome: outcome, Ratio: 1 / ratio, CI: &[2]float64{.9 / ratio, 1.1 / ratio}, Trials: 10}
		}
		return r
	}
	first := path("native", 2e9, 15, "", 0)
	first.Others = []probe.Result{path("vxlan", 1.9e9, 19, probe.CannotTell, 0.95), path("user-space", 0.24e9, 45, probe.Worse, 0.12)}
	first.Others[0].Tests[1].Verdict.Outcome = probe.Worse
	r := &network.Result{
		Made:   network.Made{ShapeBytesPerS: 62.5e6, BucketBytes: 50e6, NarrowBytesPerS: 12.5e6},
		Paths:  &first,
		Shaped: &probe.Result{Conditions: probe.Conditions{ShapingBytes: 1e9}},
		Page:   &probe.PageLoad{Bottleneck: &probe.Bottleneck{Hop: "balancer", Sentence: "The balancer is full"}},
	}
	for _, width := range []int{80, 100, 140} {
		var out bytes.Buffer
		if err := printNetwork(&out, r, terminal.Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"costs 88.0 % of the bandwidth", "the balancer's interface is the ceiling.",
			"16.0 Gbit/s", "45.0 µs", "bandwidth: cannot", "12.0 %", "worse", "Weave, user space", "8.98 %",
			"no limit was found within 1.00 GB", "can send 100 Mbit/s", "The balancer is full",
		} {
			text := strings.Join(strings.Fields(out.String()), " ")
			if !strings.Contains(text, want) {
				t.Errorf("%d columns: %q is not in\n%s", width, want, out.String())
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("%d columns: a line has %d: %s", width, n, line)
			}
		}
	}
}

func TestLabNetworkRefusesWhatItCannotMake(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--shape 500M":       "want RATE/BUCKET",
		"--shape fast/50M":   `--shape: "fast" is no number`,
		"--shape 500M/-1":    `--shape: "-1" is no number`,
		"--narrow 1":         "1 bits per second for the narrow interface",
		"--measure 1ms":      "measuring for 1ms",
		"--users-max 100000": "100000 users",
	} {
		var out, errOut bytes.Buffer
		code := Main(append([]string{"lab", "network"}, strings.Fields(args)...), strings.NewReader(""), &out, &errOut)
		if code != command.ExitUsage || !strings.Contains(errOut.String(), want) {
			t.Errorf("%s: exit code %d, %q, want %q in it", args, code, errOut.String(), want)
		}
	}
}

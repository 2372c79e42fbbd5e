package emulated

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/model"
)

// deadline is missed only by something that hangs.
const deadline = 10 * time.Second

const seed = 7

// members returns n members on addresses that are free.
func members(t *testing.T, n int) []fleet.Member {
	t.Helper()
	var all []fleet.Member
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, fleet.Member{Endpoint: model.Endpoint{Address: l.Addr().String(), Capacity: 2}, Fib: 25})
	}
	return all
}

func start(t *testing.T, members []fleet.Member) *Fleet {
	t.Helper()
	f, err := Start(members, Options{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func get(ctx context.Context, address string) (http.Header, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return nil, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.Header, string(body), err
}

func usage(t *testing.T, f *Fleet, i int) fleet.Usage {
	t.Helper()
	all, err := f.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all[i]
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", deadline, what)
		}
	}
}

func TestAnswersAndCounts(t *testing.T) {
	const requests = 30
	all := members(t, 2)
	all[1].Fib = 27
	f := start(t, all)

	began := time.Now()
	for range requests {
		header, body, err := get(t.Context(), all[1].Address)
		if err != nil {
			t.Fatal(err)
		}
		if got := header.Get(fleet.EndpointHeader); got != all[1].Address {
			t.Fatalf("%s: %q, want %q", fleet.EndpointHeader, got, all[1].Address)
		}
		if body != "196418" {
			t.Fatalf("body %q, want fib(27) = 196418", body)
		}
	}
	took := time.Since(began).Seconds()

	want := demand{random: rand.New(rand.NewPCG(seed, 1)), mean: 0.00273 * 1.618 * 1.618}
	var cost float64
	for range requests {
		cost += want.draw()
	}
	if took < cost {
		t.Errorf("took %.1f ms one after the other, less than their demand of %.1f ms", took*1e3, cost*1e3)
	}
	busy, idle := usage(t, f, 1), usage(t, f, 0)
	if busy.Requests != requests || math.Abs(busy.CPUSeconds-cost) > 1e-9 {
		t.Errorf("usage %d requests, %v s; want %d requests, %v s", busy.Requests, busy.CPUSeconds, requests, cost)
	}
	if busy.Address != all[1].Address || busy.At.Before(began) {
		t.Errorf("usage of %s at %v, want of %s after %v", busy.Address, busy.At, all[1].Address, began)
	}
	if idle.Requests != 0 || idle.CPUSeconds != 0 {
		t.Errorf("the endpoint without requests used %+v", idle)
	}
}

func TestDemandIsLognormal(t *testing.T) {
	const n = 200_000
	d := demand{random: rand.New(rand.NewPCG(seed, 0)), mean: meanDemand(29)}
	var sum, logs, squares float64
	for range n {
		x := d.draw()
		sum += x
		logs += math.Log(x)
		squares += math.Log(x) * math.Log(x)
	}
	if mean := sum / n; math.Abs(mean/0.01871-1) > 0.02 {
		t.Errorf("mean demand of fib(29) is %.3f ms, want 18.71 ms", mean*1e3)
	}
	if deviation := math.Sqrt(squares/n - logs*logs/n/n); math.Abs(deviation-0.8) > 0.01 {
		t.Errorf("σ of the logarithm is %.3f, want 0.8", deviation)
	}
}

// endless makes the requests of a member last far longer than any test.
const endless = 1e300

func TestDisturb(t *testing.T) {
	all := members(t, 2)
	f := start(t, all)
	if err := f.Disturb(all[0].Address, endless); err != nil {
		t.Fatal(err)
	}

	if _, _, err := get(t.Context(), all[1].Address); err != nil {
		t.Errorf("the other endpoint: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := get(ctx, all[0].Address); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the disturbed endpoint: %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestDisturbRejects(t *testing.T) {
	all := members(t, 2)
	f := start(t, all)
	err := f.Disturb("127.0.0.1:1", 2)
	if err == nil || !strings.Contains(err.Error(), all[0].Address+", "+all[1].Address) {
		t.Errorf("unknown address: %v, want an error that lists the known ones", err)
	}
	for _, factor := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if err := f.Disturb(all[0].Address, factor); err == nil {
			t.Errorf("factor %v was accepted", factor)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	all := members(t, 2)
	taken, err := net.Listen("tcp", all[1].Address)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	_, err = Start(all, Options{})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("Start = %v, want %v", err, syscall.EADDRINUSE)
	}
	if message := err.Error(); !strings.Contains(message, all[1].Address) || strings.Contains(message, "\n") {
		t.Errorf("error %q, want one line that names %s", message, all[1].Address)
	}
	free, err := net.Listen("tcp", all[0].Address)
	if err != nil {
		t.Fatalf("the other endpoint was left listening: %v", err)
	}
	free.Close()
}

func TestStartRejectsCapacity(t *testing.T) {
	for _, capacity := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		all := members(t, 1)
		all[0].Capacity = capacity
		if f, err := Start(all, Options{}); err == nil {
			f.Close()
			t.Errorf("capacity %v was accepted", capacity)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	all := members(t, 3)
	f := start(t, all)
	if err := f.Disturb(all[0].Address, endless); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := get(t.Context(), all[0].Address)
		ended <- err
	}()
	eventually(t, "the request is active", func() bool { return usage(t, f, 0).CPUSeconds > 0 })

	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err == nil {
		t.Error("a request under way was answered by a closed fleet")
	}
	for _, m := range all {
		l, err := net.Listen("tcp", m.Address)
		if err != nil {
			t.Fatalf("after Close: %v", err)
		}
		l.Close()
	}
	eventually(t, "no goroutine of the fleet is left", func() bool {
		stacks := make([]byte, 1<<20)
		running := string(stacks[:runtime.Stack(stacks, true)])
		return !strings.Contains(running, "http.(*conn).serve") && !strings.Contains(running, "emulated.(*scheduler)")
	})
}

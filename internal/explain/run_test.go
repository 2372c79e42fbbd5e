package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture/synth"
)

// written is a capture of the published story.
func written(t testing.TB, requests int) (path string, capture []byte) {
	t.Helper()
	c, err := synth.New(synth.Article(15*time.Minute, requests))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "k8s.pcap")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, b.Bytes()
}

func TestRun(t *testing.T) {
	t.Parallel()
	path, capture := written(t, 105)
	fromFile, err := Run(t.Context(), Options{Paths: []string{path}, KeepRequests: DefaultRequests})
	if err != nil {
		t.Fatal(err)
	}
	if len(fromFile.Routes) != 1 || fromFile.Routes[0].Count != 105 || len(fromFile.Requests) != 105 {
		t.Fatalf("%d routes, %d requests, want 1 and 105", len(fromFile.Routes), len(fromFile.Requests))
	}
	for _, r := range fromFile.Requests {
		sum := 0.0
		for _, p := range r.Parts {
			sum += p.MS
		}
		if math.Abs(sum-r.DurationMS) > 1e-3 {
			t.Errorf("request %d: parts %g ms, duration %g ms", r.ID, sum, r.DurationMS)
		}
	}
	answer := fromFile.Answer()
	if said := answer.Headline + strings.Join(answer.Rest, " "); !strings.Contains(said, "2 calls to the AWS instance metadata service (/latest/meta-data/iam/security-credentials/…)") ||
		!strings.Contains(said, "aws-sdk-java/1.11") || answer.Finding == nil || answer.Finding.ID != "credential-refresh" {
		t.Errorf("the answer is %s", said)
	}
	if c := fromFile.Capture; len(c.Files) != 1 || c.Files[0].Name != path || c.Files[0].Packets != c.Packets || c.Packets == 0 || c.Lacks() != "" {
		t.Errorf("the capture is %+v, lacks %q", c, c.Lacks())
	}
	fromStdin, err := Run(t.Context(), Options{Paths: []string{"-"}, Stdin: bytes.NewReader(capture), KeepRequests: DefaultRequests})
	if err != nil {
		t.Fatal(err)
	}
	fromStdin.Capture.Files = fromFile.Capture.Files
	var a, b bytes.Buffer
	if err := errors.Join(fromFile.WriteJSON(&a), fromStdin.WriteJSON(&b)); err != nil || a.String() != b.String() {
		t.Errorf("standard input gives another explanation than the file (%v)", err)
	}
}

// The means of a route are those of all its requests, kept or not.
func TestRunKeepsFewRequests(t *testing.T) {
	t.Parallel()
	path, _ := written(t, 300)
	all, err := Run(t.Context(), Options{Paths: []string{path}, KeepRequests: 300})
	if err != nil {
		t.Fatal(err)
	}
	few, err := Run(t.Context(), Options{Paths: []string{path}, KeepRequests: 7})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, r := range all.Requests {
		sum += r.DurationMS
	}
	if len(few.Requests) != 7 || few.RequestsOmitted != 293 || math.Abs(few.Routes[0].MeanMS-sum/300) > 1e-6 {
		t.Errorf("%d kept, %d omitted, mean %g ms, want %g", len(few.Requests), few.RequestsOmitted, few.Routes[0].MeanMS, sum/300)
	}
}

func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	path, capture := written(t, 50)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Paths: []string{path}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a file: %v, want %v", err, context.Canceled)
	}
	if _, err := Run(ctx, Options{Paths: []string{"-"}, Stdin: blocked{t.Context()}}); !errors.Is(err, context.Canceled) {
		t.Errorf("nothing on standard input: %v, want %v", err, context.Canceled)
	}
	// What came before the interrupt is explained.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	var packets atomic.Uint64
	stdin := io.MultiReader(bytes.NewReader(capture), interrupts{cancel}, blocked{t.Context()})
	e, err := Run(ctx, Options{
		Paths: []string{"-"}, Stdin: stdin, KeepRequests: 100,
		Progress: func(p Progress) { packets.Store(p.Packets) },
	})
	if err != nil || len(e.Requests) != 50 {
		t.Fatalf("interrupted: %v", err)
	}
	if got := packets.Load(); got != e.Capture.Packets {
		t.Errorf("progress told of %d packets of %d", got, e.Capture.Packets)
	}
}

// blocked waits for ever, interrupts ends the context.
type blocked struct{ ctx context.Context }

func (b blocked) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, io.EOF
}

type interrupts struct{ cancel func() }

func (i interrupts) Read([]byte) (int, error) {
	i.cancel()
	return 0, io.EOF
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	notCapture := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(notCapture, []byte("password: hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none.pcap"), notCapture, dir} {
		_, err := Run(t.Context(), Options{Paths: []string{path}})
		if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestRunLive(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "found") }))
	defer backend.Close()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := backend.Client().Get(backend.URL + "/search")
		if err == nil {
			_, _ = io.Copy(w, answer.Body)
			answer.Body.Close()
		}
	}))
	defer front.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var captured atomic.Uint64
	type result struct {
		*Explanation
		error
	}
	done := make(chan result)
	go func() {
		e, err := Run(ctx, Options{
			Live: &Live{Interface: "lo"}, KeepRequests: 1000, Service: addresses(t, front),
			Progress: func(p Progress) { captured.Store(p.Packets) },
		})
		done <- result{e, err}
	}()
	// Requests, until some were captured.
	for captured.Load() < 100 {
		select {
		case r := <-done:
			if errors.Is(r.error, syscall.EPERM) {
				t.Skip("capturing needs CAP_NET_RAW")
			}
			t.Fatalf("it ended by itself: %v", r.error)
		default:
		}
		answer, err := front.Client().Get(front.URL + "/v1/7")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	cancel()
	r := <-done
	if r.error != nil {
		t.Fatal(r.error)
	}
	if len(r.Routes) != 1 || r.Routes[0].Name() != "GET /v1/{id}" || r.Routes[0].Count == 0 {
		t.Fatalf("routes %+v of %+v", r.Routes, r.Capture)
	}
	for _, p := range r.Routes[0].Parts {
		if p.Cause == attribution.Call && p.MeanMS > 0 {
			return
		}
	}
	t.Errorf("no call among the parts %+v", r.Routes[0].Parts)
}

// addresses is where a server answers.
func addresses(t *testing.T, server *httptest.Server) []netip.AddrPort {
	t.Helper()
	return []netip.AddrPort{server.Listener.Addr().(*net.TCPAddr).AddrPort()}
}

// An error says once where nothing can be captured.
func TestRunLiveNowhere(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), Options{Live: &Live{Interface: "no-such0"}})
	if err == nil || strings.Count(err.Error(), "no-such0") != 1 || strings.Count(err.Error(), "captur") > 0 {
		t.Errorf("Run = %v, want an error that names the interface once", err)
	}
}

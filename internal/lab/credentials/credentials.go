package credentials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/lab/load"
)

const (
	// warmUp lets the JVM load its classes, and the SDK hold credentials of the session
	// that is looked at.
	warmUp = 4 * time.Second
	// keptRequests are shown one by one.
	keptRequests = 20
	// timeout is when a request has failed.
	timeout = 15 * time.Second
)

// Result is what both halves came to.
type Result struct {
	Scenario string `json:"scenario"`
	// Short has sessions too short for the SDK, Long longer ones.
	Short      *explain.Explanation `json:"short_sessions"`
	Long       *explain.Explanation `json:"long_sessions"`
	Difference *explain.Difference  `json:"difference"`
	// Captures are the files that were kept.
	Captures []string `json:"captures,omitempty"`
}

// Run runs the story. It needs root and the program moved to a network of its own by
// netns.Enter. doing is told what goes on.
func Run(ctx context.Context, o Options, doing func(string)) (_ *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "taper-credentials-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for what goes on: %w", err)
	}
	defer os.RemoveAll(dir)
	doing("starting a metadata service, a resolver and a search engine")
	world, err := startOutside(o)
	if err != nil {
		return nil, err
	}
	defer world.Close()
	doing("starting the service, a JVM with the AWS SDK")
	service, err := startPod(ctx, o.Launcher, dir)
	if err != nil {
		return nil, err
	}
	defer service.Close()

	t := &trial{options: o, dir: dir, pod: service, doing: doing}
	if o.Keep != "" {
		t.dir = o.Keep
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-world.failed:
			cancel(err)
		case <-service.process.Done():
			cancel(service.process.Err())
		case <-ctx.Done():
		}
	}()
	result, err := t.run(ctx, world.issuer)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return nil, cause // why it was cut off
	}
	return result, err
}

// trial is both halves.
type trial struct {
	options Options
	dir     string
	pod     *pod
	doing   func(string)
}

func (t *trial) run(ctx context.Context, issuer *Issuer) (*Result, error) {
	r := &Result{Scenario: "credentials"}
	short, err := t.half(ctx, "short-sessions", t.options.Session)
	if err != nil {
		return nil, err
	}
	issuer.Restart(t.options.Longer)
	long, err := t.half(ctx, "long-sessions", t.options.Longer)
	if err != nil {
		return nil, err
	}
	if t.options.Keep != "" {
		r.Captures = []string{short, long}
	}
	if r.Short, err = explained(ctx, short); err != nil {
		return nil, err
	}
	if r.Long, err = explained(ctx, long); err != nil {
		return nil, err
	}
	r.Difference = explain.Compare(filepath.Base(short), r.Short, filepath.Base(long), r.Long)
	return r, nil
}

// half captures the service under load, and returns the file.
func (t *trial) half(ctx context.Context, name string, session time.Duration) (string, error) {
	g, err := load.Start(ctx, load.Plan{
		Targets: []string{t.pod.target()}, Path: "/v1/offers/4711", Rate: t.options.Rate,
		Seed: 1, Timeout: timeout, MaxInFlight: 64,
	})
	if err != nil {
		return "", err
	}
	defer g.Stop()
	t.doing(fmt.Sprintf("credentials live %v: warming up", session))
	if _, err := g.Measure(ctx, warmUp); err != nil {
		return "", err
	}
	file := filepath.Join(t.dir, name+".pcap")
	t.doing(fmt.Sprintf("credentials live %v: capturing for %v", session, t.options.Measure))
	recording, stop := context.WithCancel(ctx)
	defer stop()
	group, groupCtx := errgroup.WithContext(recording)
	group.Go(func() error { return record(groupCtx, t.pod.network, file) })
	group.Go(func() error {
		defer stop()
		m, err := g.Measure(groupCtx, t.options.Measure)
		if err == nil && m.Errors > 0 {
			err = fmt.Errorf("%d of %d requests failed: %s", m.Errors, m.Requests, m.FirstError)
		}
		if err == nil {
			g.Stop()
			err = pause(groupCtx, settle)
		}
		return err
	})
	return file, group.Wait()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func explained(ctx context.Context, file string) (*explain.Explanation, error) {
	return explain.Run(ctx, explain.Options{Paths: []string{file}, KeepRequests: keptRequests, KeepSamples: explain.DefaultSamples})
}

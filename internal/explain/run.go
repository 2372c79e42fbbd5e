package explain

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/dissect"
	"taper.dev/taper/internal/trap"
)

// Options say what to explain.
type Options struct {
	// Paths are capture files, "-" is Stdin. They are one capture, in order of time.
	Paths []string
	Stdin io.Reader
	// Live captures instead of reading Paths.
	Live *Live
	// Service are the addresses that answer requests; port 0 is any port. Empty: the
	// capture tells.
	Service []netip.AddrPort
	// Config is what is known of the service otherwise.
	Config trap.Config
	// KeepRequests is how many requests are kept for output.
	KeepRequests int
	// KeepSamples is how many requests of each route are kept for Compare; 0 is none.
	KeepSamples int
	// Progress is told now and then how far it is, from another goroutine; may be nil.
	Progress func(Progress)
}

// DefaultSamples is how many requests of each route are kept to compare.
const DefaultSamples = 10_000

// Live is a capture of this machine's packets.
type Live struct {
	Interface string // or "any"
	// For is how long; 0 is until the context ends.
	For time.Duration
}

// Progress is how far reading has come.
type Progress struct {
	Packets uint64
	// Bytes of Total were read; Total is 0 where the end is not known.
	Bytes, Total int64
	Elapsed      time.Duration
}

// progressEvery is how often Progress is told.
const progressEvery = 200 * time.Millisecond

// Run reads captures to their end and explains them. Ending ctx ends a live capture, or
// standard input, and explains what came until then; while files are read it is an error.
func Run(ctx context.Context, o Options) (*Explanation, error) {
	in, err := open(ctx, &o)
	if err != nil {
		return nil, err
	}
	stats, listener, err := listen(ctx, in, &o)
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	// A rule or the linker may take its time at the end; an interrupt does not wait for it.
	if !in.endless && ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), in.Close())
	}
	stats.Damage = append(slices.Clone(stats.Damage), in.damage()...)
	e := listener.explanation(stats, o.Config)
	e.Capture.Files, e.Capture.DroppedPackets = in.files(), in.dropped()
	return e, in.Close()
}

func listen(ctx context.Context, in *input, o *Options) (capture.Stats, *listener, error) {
	defer in.tell(o.Progress)()
	if in.endless {
		// The end of ctx is the end of the input, and no failure.
		ctx = context.WithoutCancel(ctx)
	}
	l := newListener(o)
	stats, err := dissect.Run(ctx, in, l)
	return stats, l, err
}

// input is where packets come from, counted.
type input struct {
	source
	io.Closer
	// endless is what people end by an interrupt.
	endless bool
	total   int64
	read    func() int64
	packets atomic.Uint64

	files   func() []File
	damage  func() []string
	dropped func() uint64
}

type source interface {
	Next(*capture.Packet) error
}

// Next implements [dissect.Source].
func (in *input) Next(p *capture.Packet) error {
	err := in.source.Next(p)
	if err == nil {
		in.packets.Add(1)
	}
	return err
}

// tell reports progress until what it returns is called.
func (in *input) tell(progress func(Progress)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	began := time.Now()
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-ticker.C:
				progress(Progress{Packets: in.packets.Load(), Bytes: in.read(), Total: in.total, Elapsed: now.Sub(began)})
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}

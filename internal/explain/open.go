package explain

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"taper.dev/taper/internal/capture/live"
	"taper.dev/taper/internal/capture/pcapfile"
)

func open(ctx context.Context, o *Options) (*input, error) {
	if o.Live != nil {
		return openLive(ctx, o.Live)
	}
	return openFiles(ctx, o)
}

func openFiles(ctx context.Context, o *Options) (*input, error) {
	stdin := slices.Contains(o.Paths, pcapfile.Stdin)
	from := newInterruptible(ctx, o.Stdin)
	reader, err := pcapfile.Open(o.Paths, from)
	if err != nil {
		from.stop()
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause // interrupted before anything came
		}
		return nil, err
	}
	in := &input{source: reader, Closer: closers{reader, closeFunc(from.stop)}, endless: stdin, read: reader.BytesRead, damage: reader.Damage}
	in.dropped = func() uint64 { return 0 }
	in.files = func() []File {
		files := []File{}
		for _, f := range reader.Files() {
			files = append(files, File{Name: f.Name, FirstPacket: f.FirstPacket, Packets: f.Packets})
		}
		return files
	}
	in.total = size(o.Paths)
	return in, nil
}

// size is how many bytes the files have in all, 0 if one does not tell.
func size(paths []string) int64 {
	var total int64
	for _, path := range paths {
		info, err := os.Stat(path)
		if path == pcapfile.Stdin || err != nil || !info.Mode().IsRegular() {
			return 0
		}
		total += info.Size()
	}
	return total
}

// openLive captures from now on, until the time is over or ctx ends.
func openLive(ctx context.Context, o *Live) (*input, error) {
	source, err := live.Open(o.Interface, 0)
	if err != nil {
		return nil, err
	}
	cancel := context.CancelFunc(func() {})
	if o.For > 0 {
		ctx, cancel = context.WithTimeout(ctx, o.For)
	}
	in := &input{source: source.Until(ctx), Closer: closers{source, closeFunc(cancel)}, endless: true, read: func() int64 { return 0 }}
	in.damage = func() []string { return nil }
	in.files = func() []File { return []File{{Name: o.Interface, FirstPacket: 1, Packets: in.packets.Load()}} }
	in.dropped = func() uint64 {
		_, dropped, _ := source.Stats() // on an error it says what is known
		return dropped
	}
	return in, nil
}

type closers []io.Closer

// Close implements [io.Closer].
func (c closers) Close() error {
	var errs []error
	for _, closer := range c {
		errs = append(errs, closer.Close())
	}
	return errors.Join(errs...)
}

type closeFunc func()

// Close implements [io.Closer].
func (f closeFunc) Close() error {
	f()
	return nil
}

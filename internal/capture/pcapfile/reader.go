package pcapfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"taper.dev/taper/internal/capture"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Reader reads the packets of a capture, which may be several files.
type Reader struct {
	shared  *shared
	waiting []*source
	current *source
	files   []File
	// before is how many numbers the files before the current one took.
	before uint64
	damage []string
	read   atomic.Int64
}

// File is one of a capture's files.
type File struct {
	Name string
	// FirstPacket is the number of its first packet; Packets is how many numbers it took so
	// far: one for each packet, and one for each record of another kind that Wireshark
	// shows among packets.
	FirstPacket, Packets uint64
}

// source is a file to read.
type source struct {
	name  string
	first capture.Time
	// stream is nil while the file is closed.
	stream *stream
}

// Open opens files, in the order of their first packets' times; Stdin stands for stdin.
// It fails if one cannot be opened or is no capture. Of several files, those that are
// empty are no reason to fail: rotation leaves them.
func Open(paths []string, stdin io.Reader) (*Reader, error) {
	if len(paths) == 0 {
		return nil, errors.New("no capture given; give files written by `tcpdump -w`, or - for standard input")
	}
	r := &Reader{shared: newShared()}
	given := map[string]bool{}
	for _, path := range paths {
		clean := filepath.Clean(path)
		if given[clean] {
			return nil, errors.Join(fmt.Errorf("%s is given twice; its packets would count twice", path), r.Close())
		}
		given[clean] = true
		err := r.add(path, stdin, len(paths) > 1)
		if errors.Is(err, errEmpty) && len(paths) > 1 {
			r.damage = append(r.damage, err.Error())
			continue
		}
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	if len(r.waiting) == 0 {
		return nil, fmt.Errorf("none of the %d files holds a byte; did the capture write yet (`tcpdump -U` writes at once)?", len(paths))
	}
	slices.SortStableFunc(r.waiting, func(a, b *source) int { return cmp.Compare(a.first, b.first) })
	return r, nil
}

// NewReader reads a capture from r, called name in what is told about it.
func NewReader(name string, r io.Reader) (*Reader, error) {
	reader := &Reader{shared: newShared()}
	s, err := newStream(r, reader.shared, &reader.read)
	if err != nil {
		return nil, named(name, err)
	}
	reader.waiting = []*source{{name: name, stream: s}}
	return reader, nil
}

// add opens a file. One of several is read up to its first packet, and closed again if it
// can be opened anew, since rotated files may be more than may be open at once.
func (r *Reader) add(path string, stdin io.Reader, several bool) error {
	src := &source{name: path}
	read := r.read.Load()
	if path == Stdin {
		src.name = "standard input"
		var err error
		if src.stream, err = newStream(stdin, r.shared, &r.read); err != nil {
			return named(src.name, err)
		}
	} else if err := src.open(r); err != nil {
		return err
	}
	r.waiting = append(r.waiting, src)
	if !several {
		return nil
	}
	src.first = src.stream.first()
	if info, err := os.Stat(path); path != Stdin && err == nil && info.Mode().IsRegular() {
		err := src.stream.close()
		src.stream = nil
		r.read.Store(read) // it will be read again
		return err
	}
	return nil
}

func (src *source) open(r *Reader) error {
	f, err := os.Open(src.name)
	if err != nil {
		return fmt.Errorf("the capture cannot be opened: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		return fmt.Errorf("%s is a directory; give the capture files in it, such as %s/*.pcap", src.name, src.name)
	}
	if src.stream, err = newStream(f, r.shared, &r.read); err != nil {
		_ = f.Close()
		return named(src.name, err)
	}
	src.stream.closers = append(src.stream.closers, f.Close)
	return nil
}

func named(name string, err error) error { return fmt.Errorf("%s: %w", name, err) }

// Next reads the next packet into p, whose Data is valid until the next call. Its error
// is io.EOF at the end of the capture; what broke before it is in Damage.
func (r *Reader) Next(p *capture.Packet) error {
	for {
		if r.current == nil {
			if len(r.waiting) == 0 {
				return io.EOF
			}
			r.begin()
			continue
		}
		err := r.current.stream.next(p)
		if err == nil {
			p.Number += r.before
			return nil
		}
		r.end(err)
	}
}

// begin takes the next file.
func (r *Reader) begin() {
	src := r.waiting[0]
	r.waiting = r.waiting[1:]
	if src.stream == nil {
		if err := src.open(r); err != nil {
			r.damage = append(r.damage, err.Error())
			return
		}
	}
	r.current = src
	r.files = append(r.files, File{Name: src.name, FirstPacket: r.before + 1})
}

// end leaves the current file because of err.
func (r *Reader) end(err error) {
	src := r.current
	r.current = nil
	file := &r.files[len(r.files)-1]
	file.Packets = src.stream.format.numbered()
	r.before += file.Packets
	where := src.name
	if src.stream.packed {
		where += " (decompressed)"
	}
	if n, first := src.stream.skipped(); n > 0 {
		r.damage = append(r.damage, fmt.Sprintf("%s: damaged blocks were skipped: %d, the first %v", where, n, first))
	}
	if err != io.EOF {
		r.damage = append(r.damage, fmt.Sprintf("%s: %v; packets read before that: %d", where, err, file.Packets))
	}
	if err := src.stream.close(); err != nil {
		r.damage = append(r.damage, fmt.Sprintf("%s: closing: %v", src.name, err))
	}
}

// Files are those that were begun so far, in order.
func (r *Reader) Files() []File {
	files := slices.Clone(r.files)
	if r.current != nil {
		files[len(files)-1].Packets = r.current.stream.format.numbered()
	}
	return files
}

// Damage says, in words, where files broke off or were empty, so far.
func (r *Reader) Damage() []string { return slices.Clone(r.damage) }

// BytesRead is how much was read of the files, as they are on disk: compressed ones count
// less than their packets. It may be called while another goroutine reads.
func (r *Reader) BytesRead() int64 { return r.read.Load() }

// Close closes what is still open. It must not be called while another goroutine reads.
func (r *Reader) Close() error {
	open := r.waiting
	if r.current != nil {
		open = append(open, r.current)
	}
	r.waiting, r.current = nil, nil
	var errs []error
	for _, src := range open {
		if src.stream != nil {
			errs = append(errs, src.stream.close())
		}
	}
	return errors.Join(errs...)
}

//go:build !linux

package live

import (
	"context"
	"errors"
	"io"

	"taper.dev/taper/internal/capture"
)

// Any stands for all interfaces.
const Any = "any"

// Source captures from an interface; only on Linux.
type Source struct{}

// Open fails.
func Open(string, int) (*Source, error) {
	return nil, errors.New("capturing needs Linux; capture with `tcpdump -i any -w FILE` and give the file")
}

// Next is at its end.
func (*Source) Next(context.Context, *capture.Packet) error { return io.EOF }

// Until has no packets.
func (*Source) Until(context.Context) *Packets { return &Packets{} }

// Stats counts nothing.
func (*Source) Stats() (received, dropped uint64, err error) { return 0, 0, nil }

// Close does nothing.
func (*Source) Close() error { return nil }

// Packets are none.
type Packets struct{}

// Next is at its end.
func (*Packets) Next(*capture.Packet) error { return io.EOF }

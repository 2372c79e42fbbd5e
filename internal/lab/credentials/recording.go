package credentials

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/live"
	"taper.dev/taper/internal/lab/netns"
)

// snaplen keeps whole packets: offloading makes them larger than the link's.
const snaplen = 1 << 18

// record writes what the network's interfaces carry to a file until ctx ends, as
// "tcpdump -i any -w" does.
func record(ctx context.Context, network *netns.Namespace, path string) (err error) {
	var source *live.Source
	if err := network.Do(func() (err error) {
		source, err = live.Open("any", snaplen)
		return err
	}); err != nil {
		return err
	}
	defer source.Close()
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the capture: %w", err)
	}
	defer func() {
		if closeErr := file.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("writing the capture: %w", closeErr)
		}
	}()
	buffer := bufio.NewWriter(file)
	out := pcapgo.NewWriterNanos(buffer)
	if err := out.WriteFileHeader(snaplen, layers.LinkType(capture.LinkSLL2)); err != nil {
		return fmt.Errorf("writing the capture: %w", err)
	}
	var packet capture.Packet
	for {
		if err := source.Next(ctx, &packet); err != nil {
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				break
			}
			return err
		}
		info := gopacket.CaptureInfo{Timestamp: packet.Time.Time(), CaptureLength: len(packet.Data), Length: packet.Length}
		if err := out.WritePacket(info, packet.Data); err != nil {
			return fmt.Errorf("writing the capture: %w", err)
		}
	}
	if err := buffer.Flush(); err != nil {
		return fmt.Errorf("writing the capture: %w", err)
	}
	_, dropped, err := source.Stats()
	if err == nil && dropped > 0 {
		err = fmt.Errorf("the kernel dropped %d packets of the capture: the machine is too busy", dropped)
	}
	return err
}

// settle is how long a recording goes on after the last request, for its last packets.
const settle = 300 * time.Millisecond

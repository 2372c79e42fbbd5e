package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
	"taper.dev/taper/test/bench/aim"
)

// bytesPerRequest is what the search engine answers, so that a stream of gigabytes is
// generated in a minute.
const bytesPerRequest = 30_000

// memory pipes a stream into the command that no file has to hold.
func (p plan) memory(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, p.taper, "explain", "--json", "-")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	fed, err := p.feed(ctx, in)
	if err := errors.Join(err, in.Close(), cmd.Wait()); err != nil {
		return fmt.Errorf("explaining a stream: %w", err)
	}
	c := costOf(cmd)
	fmt.Printf("a stream of %.1f GB, %d packets, more than %d connections\n", float64(fed.bytes)/1e9, fed.packets, fed.requests)
	aim.Row("resident memory, highest", c.resident/1e6, "MB", "≤ 300 MB", c.resident <= aimResident)
	aim.Row("packets per second of one core", float64(fed.packets)/c.cpu.Seconds(), "/s", "", true)
	return nil
}

// stream is what was fed. Each request came on a connection of its own.
type stream struct{ packets, bytes, requests int64 }

func (p plan) feed(ctx context.Context, to io.Writer) (fed stream, err error) {
	buffer := bufio.NewWriterSize(to, 1<<20)
	out := synth.NewFile(buffer)
	s := mix(int(p.stream/bytesPerRequest) + 1)
	s.Clients = 0
	s.Routes[0].Steps[2].Call.Got = bytesPerRequest
	_, err = synth.Generate(s, func(packet *capture.Packet) error {
		if fed.bytes >= p.stream {
			return errEnough
		}
		n, err := out.Write(packet)
		fed.packets++
		fed.bytes += int64(n)
		return errors.Join(err, ctx.Err())
	}, func(synth.Request) { fed.requests++ })
	if err != nil && !errors.Is(err, errEnough) {
		return fed, err
	}
	return fed, buffer.Flush()
}

func costOf(cmd *exec.Cmd) cost {
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), resident: float64(usage.Maxrss) * 1024}
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
	"taper.dev/taper/test/bench/aim"
)

// mix is what the published figures are about: HTTP, names and metadata.
func mix(requests int) synth.Plan {
	p := synth.Article(15*time.Minute, requests)
	p.Open, p.Clients = 0.1, 32
	search := &p.Routes[0].Steps[2].Call
	search.Resolve, search.ResolveTook = true, synth.Gamma(time.Millisecond, 3)
	search.Host, search.Search = "search.internal", []string{"shop.svc.cluster.local"}
	p.Background = []synth.Background{{Every: 200 * time.Millisecond, Call: synth.Call{
		Peer: netip.MustParseAddrPort("10.3.0.1:80"), Host: "agent", Method: "POST", Path: "/beat", Took: synth.Constantly(time.Millisecond), Sent: 500,
	}}}
	return p
}

var errEnough = errors.New("there are enough packets")

// generate writes a file of so many packets, and returns its size in bytes.
func generate(ctx context.Context, path string, packets int) (bytes int64, err error) {
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriterSize(file, 1<<20)
	out := synth.NewFile(buffer)
	_, err = synth.Generate(mix(packets), func(p *capture.Packet) error {
		if packets--; packets < 0 {
			return errEnough
		}
		n, err := out.Write(p)
		bytes += int64(n)
		return errors.Join(err, ctx.Err())
	}, nil)
	if err != nil && !errors.Is(err, errEnough) {
		return 0, err
	}
	return bytes, buffer.Flush()
}

// speed compares CPU times on one file.
func (p plan) speed(ctx context.Context, dir string) error {
	path := filepath.Join(dir, "mix.pcap")
	bytes, err := generate(ctx, path, p.packets)
	if err != nil {
		return err
	}
	fmt.Printf("%d packets of HTTP, DNS and metadata, %d MB\n", p.packets, bytes/1e6)
	commands := map[string][]string{"taper": {p.taper, "explain", "--json", path}}
	if tshark, err := exec.LookPath("tshark"); err == nil {
		commands["tshark"] = []string{
			tshark, "-r", path, "-Y", "http.time || dns.time", "-T", "fields", "-e", "frame.number", "-e", "frame.time_epoch", "-e", "tcp.stream",
			"-e", "http.time", "-e", "http.request.method", "-e", "http.response_for.uri", "-e", "http.response.code", "-e", "dns.time", "-e", "dns.qry.name",
		}
	}
	spent := map[string][]float64{}
	most := map[string]float64{}
	for range p.rounds {
		for name, command := range commands {
			cost, err := measure(ctx, command)
			if err != nil {
				return err
			}
			spent[name] = append(spent[name], cost.cpu.Seconds())
			most[name] = max(most[name], cost.resident)
		}
	}
	rate := float64(p.packets) / aim.Median(spent["taper"])
	aim.Row("packets per second of one core", rate, "/s", "≥ 1.5 million", rate >= aimPacketsPerSecond)
	aim.Row("resident memory, highest", most["taper"]/1e6, "MB", "", true)
	if len(spent["tshark"]) == 0 {
		fmt.Println("tshark is not installed: nothing to compare with")
		return nil
	}
	times := aim.Median(spent["tshark"]) / aim.Median(spent["taper"])
	aim.Row("packets per second of one core, tshark", float64(p.packets)/aim.Median(spent["tshark"]), "/s", "", true)
	aim.Row("resident memory, highest, tshark", most["tshark"]/1e6, "MB", "", true)
	aim.Row("times as fast as tshark", times, "", "≥ 20", times >= aimTimesTshark)
	return nil
}

// cost is what a command took.
type cost struct {
	cpu      time.Duration
	resident float64 // bytes, the most
}

// measure runs a command on one processor, to its end.
func measure(ctx context.Context, command []string) (cost, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return cost{}, fmt.Errorf("running %s: %w", command[0], err)
	}
	return costOf(cmd), nil
}

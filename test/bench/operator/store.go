package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/test/cluster"
)

const (
	// sampledEvery is a usual scrape interval. A short control interval has it halved,
	// so that each cycle has new samples.
	sampledEvery = 15 * time.Second
	// sampledBefore is how far back samples reach at the start: a whole window.
	sampledBefore = 2 * time.Minute

	storeReadyWithin = time.Minute
	storeStopWithin  = 10 * time.Second

	requestRate = 10 // of each pod, a second
)

// store is a VictoriaMetrics that is told samples, rather than scraping them: a
// hundred thousand pods are not there to be scraped.
type store struct {
	*process.Process
	url string
}

func startStore(ctx context.Context, dir string) (*store, error) {
	binary, err := process.Lookup("victoria-metrics", `run "tools/fetch.sh victoria-metrics"`)
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(process.Spec{
		Name: "victoria-metrics", Path: binary, Log: filepath.Join(dir, "victoria-metrics.log"),
		Args: []string{
			"-storageDataPath=" + filepath.Join(dir, "victoria-metrics"), "-httpListenAddr=" + address,
			"-retentionPeriod=1d", "-search.latencyOffset=1s", "-search.maxQueryDuration=15s", "-loggerLevel=WARN",
		},
	})
	if err != nil {
		return nil, err
	}
	s := &store{p, "http://" + address}
	if err := process.Await(ctx, p, func(ctx context.Context) error { return get(ctx, s.url+"/health", io.Discard) }, storeReadyWithin); err != nil {
		p.Stop(storeStopWithin)
		return nil, err
	}
	return s, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func samplePeriod(interval time.Duration) time.Duration { return min(sampledEvery, interval/2) }

// backfill tells the store as many samples as if they had been taken for a while.
func (s *store) backfill(ctx context.Context, w *world) error {
	period := samplePeriod(w.plan.interval)
	for ago := sampledBefore.Truncate(period); ago >= 0; ago -= period {
		if err := s.tell(ctx, w, time.Now().Add(-ago)); err != nil {
			return err
		}
	}
	// The store keeps the newest samples back for about a second.
	return cluster.Eventually(ctx, storeReadyWithin, "the store knows the samples", func(ctx context.Context) error {
		return get(ctx, s.url+"/internal/force_flush", io.Discard)
	})
}

// feed goes on telling samples until the context ends.
func (s *store) feed(ctx context.Context, w *world) error {
	tick := time.NewTicker(samplePeriod(w.plan.interval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.tell(ctx, w, time.Now()); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// tell sends a sample of everything, in the text format, as it would be scraped.
func (s *store) tell(ctx context.Context, w *world, at time.Time) error {
	read, write := io.Pipe()
	go func() {
		buffered := bufio.NewWriterSize(write, 64<<10)
		var line []byte
		for _, service := range w.services {
			for j := range service.pods {
				line = service.samples(line[:0], j, at)
				if _, err := buffered.Write(line); err != nil {
					return // the reader is gone
				}
			}
		}
		write.CloseWithError(buffered.Flush())
	}()
	defer read.Close()
	url := s.url + "/api/v1/import/prometheus?timestamp=" + strconv.FormatInt(at.UnixMilli(), 10)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, read)
	if err != nil {
		return err
	}
	return do(http.DefaultClient, req, io.Discard)
}

// epoch is when all counters were 0.
var epoch = time.Now().Add(-time.Hour)

// samples appends what a scrape says of one pod. Requests cost a third of the pods
// twice as much as another third, so that there is something to balance; and they
// always cost the same, so that once it is balanced nothing changes.
func (s *service) samples(to []byte, j int, at time.Time) []byte {
	requests := requestRate * at.Sub(epoch).Seconds()
	cpu := requests * []float64{0.020, 0.030, 0.040}[j%3]
	series := func(name, labels string, value float64) {
		to = append(append(append(to, name...), `{namespace="`...), s.object.Namespace...)
		to = append(append(append(to, `",pod="`...), s.pods[j].Name...), `",`...)
		to = append(append(to, labels...), "} "...)
		to = append(strconv.AppendFloat(to, value, 'f', 3, 64), '\n')
	}
	series("container_cpu_usage_seconds_total", `container="app",image="app"`, cpu)
	series("istio_requests_total", `reporter="destination",response_code="200"`, requests)
	series("istio_request_duration_milliseconds_sum", `reporter="destination",response_code="200"`, 2000*cpu)
	return to
}

// get reads a URL into a writer; a status other than 2xx is an error.
func get(ctx context.Context, url string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return do(http.DefaultClient, req, to)
}

func do(client *http.Client, req *http.Request, to io.Writer) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // the status says enough without
		return fmt.Errorf("%s: status %s: %s", req.URL.Path, resp.Status, why)
	}
	_, err = io.Copy(to, resp.Body)
	return err
}

package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	stale "github.com/prometheus/prometheus/model/value"

	"taper.dev/taper/internal/lab/store"
)

// maxBody bounds what is read of one target in one scrape.
const maxBody = 8 << 20

// value is one line of a scrape.
type value struct {
	key    string // of labels; see seriesKey
	labels labels.Labels
	value  float64
}

// scraper follows one target. As Prometheus does, it ends a series that is gone
// from the target, and every series when a scrape fails, by a stale marker: a
// query then finds nothing rather than an old value.
type scraper struct {
	url      string
	instance string
	client   *http.Client
	memory   *memory
	last     map[string]value // what the last scrape found, by key
}

func newScrapers(cfg Config, kept *memory) ([]*scraper, error) {
	if len(cfg.Targets) == 0 {
		return nil, errors.New("there is no target to scrape; want a URL such as http://127.0.0.1:9090/metrics")
	}
	scrapers := make([]*scraper, 0, len(cfg.Targets))
	for _, target := range cfg.Targets {
		u, err := url.Parse(target)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return nil, errors.New("a scrape target is not a URL; want one such as http://127.0.0.1:9090/metrics")
		}
		scrapers = append(scrapers, &scraper{
			url:      target,
			instance: u.Host,
			client:   &http.Client{Timeout: cfg.ScrapeEvery, Transport: &http.Transport{}},
			memory:   kept,
		})
	}
	return scrapers, nil
}

// run scrapes until the context ends.
func (s *scraper) run(ctx context.Context, every time.Duration) {
	defer s.client.CloseIdleConnections()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		s.scrape(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// scrape stores what the target says under the time at which it was asked.
func (s *scraper) scrape(ctx context.Context) {
	at := time.Now().UnixMilli()
	up := 1.0
	values, err := s.read(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		values, up = nil, 0
	}
	found := make(map[string]value, len(values))
	for _, v := range values {
		found[v.key] = v
	}
	for key, v := range s.last {
		if _, ok := found[key]; !ok {
			v.value = math.Float64frombits(stale.StaleNaN)
			values = append(values, v)
		}
	}
	s.last = found
	s.memory.add(at, append(values, s.value(labels.FromStrings(prommodel.MetricNameLabel, "up"), up)))
}

// read returns the values of the target, all or none.
func (s *scraper) read(ctx context.Context) ([]value, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the target answered %s", resp.Status)
	case len(body) > maxBody:
		return nil, fmt.Errorf("the target said more than %d MiB", maxBody>>20)
	}
	return s.parse(body)
}

// parse reads the text format. Times in it are passed over, as by Prometheus
// with honor_timestamps: false.
func (s *scraper) parse(body []byte) ([]value, error) {
	var values []value
	parser := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, number := parser.Series()
		var scraped labels.Labels
		parser.Labels(&scraped)
		values = append(values, s.value(scraped, number))
	}
}

// value adds the target's labels. A label of the same name in the text gives way
// and is kept as exported_NAME.
func (s *scraper) value(scraped labels.Labels, number float64) value {
	b := labels.NewBuilder(scraped)
	for name, own := range map[string]string{prommodel.JobLabel: store.Job, prommodel.InstanceLabel: s.instance} {
		if theirs := scraped.Get(name); theirs != "" {
			b.Set(prommodel.ExportedLabelPrefix+name, theirs)
		}
		b.Set(name, own)
	}
	all := b.Labels()
	return value{key: seriesKey(all), labels: all, value: number}
}

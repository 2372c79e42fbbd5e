package victoriametrics

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.yaml.in/yaml/v3"

	"taper.dev/taper/internal/lab/store"
)

// scrapeFile is what of Prometheus's configuration the lab needs.
type scrapeFile struct {
	ScrapeConfigs []scrapeJob `yaml:"scrape_configs"`
}

type scrapeJob struct {
	JobName        string         `yaml:"job_name"`
	ScrapeInterval time.Duration  `yaml:"scrape_interval"`
	ScrapeTimeout  time.Duration  `yaml:"scrape_timeout"`
	StaticConfigs  []staticConfig `yaml:"static_configs"`
}

type staticConfig struct {
	Targets []string          `yaml:"targets"`
	Labels  map[string]string `yaml:"labels"`
}

// scrapeConfig returns the file that tells the server what to scrape.
func scrapeConfig(cfg Config) ([]byte, error) {
	if cfg.ScrapeEvery < time.Millisecond {
		return nil, fmt.Errorf("scraping every %s is not possible; want at least 1ms", cfg.ScrapeEvery)
	}
	if len(cfg.Targets) == 0 {
		return nil, errors.New("there is no target to scrape; want a URL such as http://127.0.0.1:9090/metrics")
	}
	job := scrapeJob{JobName: store.Job, ScrapeInterval: cfg.ScrapeEvery, ScrapeTimeout: cfg.ScrapeEvery}
	for _, target := range cfg.Targets {
		u, err := url.Parse(target)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return nil, errors.New("a scrape target is not a URL; want one such as http://127.0.0.1:9090/metrics")
		}
		job.StaticConfigs = append(job.StaticConfigs, staticConfig{
			Targets: []string{u.Host},
			Labels:  map[string]string{"__metrics_path__": u.Path},
		})
	}
	return yaml.Marshal(scrapeFile{[]scrapeJob{job}})
}

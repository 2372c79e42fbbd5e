package victoriametrics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxTargets bounds what is read of the server's list of targets.
const maxTargets = 1 << 20

// scraped is nil once the server has scraped all of its targets with success.
//
// It does not ask for samples: the server remembers for ten seconds that a
// selector has found nothing, however many series have come since, and an
// experiment that starts right away would see nothing for as long.
func (s *Store) scraped(ctx context.Context, targets int) error {
	body, err := s.get(ctx, "/api/v1/targets?state=active")
	if err != nil {
		return err
	}
	var answer struct {
		Data struct {
			ActiveTargets []struct {
				ScrapeURL string `json:"scrapeUrl"`
				Health    string `json:"health"`
				LastError string `json:"lastError"`
			} `json:"activeTargets"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("reading victoria-metrics' targets: %w", err)
	}
	up := 0
	for _, target := range answer.Data.ActiveTargets {
		if target.Health == "up" {
			up++
		} else if target.LastError != "" {
			return fmt.Errorf("victoria-metrics cannot scrape %s: %s", target.ScrapeURL, target.LastError)
		}
	}
	if up != targets {
		return fmt.Errorf("victoria-metrics has scraped %d of %d targets", up, targets)
	}
	return nil
}

// flush makes what was scraped visible to queries.
func (s *Store) flush(ctx context.Context) error {
	_, err := s.get(ctx, "/internal/force_flush")
	return err
}

func (s *Store) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTargets))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s%s answered %s", s.url, path, resp.Status)
	}
	return body, err
}

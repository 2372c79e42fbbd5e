package scenario

import "taper.dev/taper/internal/sim"

// service is what is simulated.
func (r *reader) service() (sim.Service, error) {
	s := sim.Service{
		RoundTrip: float64(r.RoundTrip), Timeout: float64(r.Timeout), Retries: r.Retries,
		WarmUp: float64(r.WarmUp), Measure: float64(r.Measure),
	}
	if r.Proxies == nil {
		return s, r.Errorf("proxies", "is missing: say how many balance, each of which sees its own requests alone")
	}
	s.Proxies = *r.Proxies
	if err := r.within([]limit{
		{"proxies", float64(s.Proxies), 1, maxProxies},
		{"retries", float64(s.Retries), 0, maxRetries},
	}); err != nil {
		return s, err
	}
	if err := r.spans([]span{
		{"warm-up", r.WarmUp, 0, maxSeconds},
		{"measure", r.Measure, leastMeasure, maxSeconds},
		{"round-trip", r.RoundTrip, 0, maxSeconds},
		{"timeout", r.Timeout, 0, maxSeconds},
	}); err != nil {
		return s, err
	}
	var err error
	if s.Arrivals, err = r.arrivals(); err != nil {
		return s, err
	}
	if s.Servers, err = r.servers(); err != nil {
		return s, err
	}
	s.Changes, err = r.changes(s.Servers)
	return s, err
}

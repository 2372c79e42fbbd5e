package page

import (
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
)

// pageLoadContent is what pageload.html is filled with.
type pageLoadContent struct {
	*probe.PageLoad
	Answer answer.Answer
}

// loadTable is the table of one way to the page.
type loadTable struct {
	*probe.PageTarget
	Title  string
	Rows   []answer.Step
	Colour int
}

// Bytes is the size of what one user loads.
func (t loadTable) Bytes() float64 { return float64(t.PageBytes) }

// Tables are those of all ways.
func (c pageLoadContent) Tables() []loadTable {
	var all []loadTable
	for i := range c.Targets {
		t := &c.Targets[i]
		all = append(all, loadTable{t, answer.TargetName(t), answer.Steps(t), i % colours})
	}
	return all
}

// HasCharts tells whether there are steps to draw, HasTime whether there are bytes over time.
func (c pageLoadContent) HasCharts() bool {
	for i := range c.Targets {
		if len(c.Targets[i].Steps) > 1 {
			return true
		}
	}
	return false
}
func (c pageLoadContent) HasTime() bool {
	for i := range c.Targets {
		if answer.Busiest(&c.Targets[i]) != nil {
			return true
		}
	}
	return false
}

// load is one way to the page as page.js draws it.
type load struct {
	Name   string     `json:"name"`
	Colour int        `json:"colour"`
	Steps  []loadStep `json:"steps"`
	// Over is bytes over time with the most users; missing if nobody noted them.
	Over *overTime `json:"over,omitempty"`
}

type loadStep struct {
	Users     int      `json:"users"`
	BytesPerS float64  `json:"bytes_per_s"`
	P50       *float64 `json:"p50_ms"`
	P90       *float64 `json:"p90_ms"`
	P99       *float64 `json:"p99_ms"`
}

// overTime is bytes per bin, which is BinS seconds long, in all and by server.
type overTime struct {
	Users  int      `json:"users"`
	BinS   float64  `json:"bin_s"`
	Bins   []int64  `json:"bins"`
	Served []server `json:"served"`
}

type server struct {
	Name string  `json:"name"`
	Bins []int64 `json:"bins"`
}

// mostServers are drawn apart; the rest are one.
const mostServers = 8

func pageLoadData(p *probe.PageLoad) data {
	var d data
	for i := range p.Targets {
		t := &p.Targets[i]
		l := load{Name: answer.TargetName(t), Colour: i % colours}
		for _, s := range t.Steps {
			l.Steps = append(l.Steps, loadStep{s.Users, s.BytesPerS, s.P50, s.P90, s.P99})
		}
		if s := answer.Busiest(t); s != nil {
			l.Over = over(s)
		}
		d.Loads = append(d.Loads, l)
	}
	return d
}

func over(s *probe.PageStep) *overTime {
	group := (len(s.Bins) + mostBins - 1) / mostBins
	o := &overTime{Users: s.Users, Bins: merged(s.Bins, group), BinS: float64(group) * probe.BinWidth.Seconds()}
	names := answer.Servers(s)
	rest := server{Name: "others", Bins: make([]int64, len(s.Bins))}
	for i, name := range names {
		if i < mostServers || len(names) == mostServers+1 {
			o.Served = append(o.Served, server{name, merged(s.Served[name], group)})
			continue
		}
		for k, b := range s.Served[name][:min(len(s.Served[name]), len(rest.Bins))] {
			rest.Bins[k] += b
		}
	}
	if len(names) > mostServers+1 {
		rest.Bins = merged(rest.Bins, group)
		o.Served = append(o.Served, rest)
	}
	return o
}

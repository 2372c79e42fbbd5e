package matrix

import (
	"context"
	"fmt"
	"math"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// metrics are what a matrix is searched for outliers in.
var metrics = []struct {
	test probe.Test
	name string
}{{probe.TCPBandwidth, "bandwidth"}, {probe.TCPLatency, "latency"}}

// judge searches one metric on one path. again are pairs that one visit alone makes look
// odd.
func (r *run) judge(path probe.Path, test probe.Test) (found []verdict.Outlier, again []verdict.Pair) {
	blocks := make([]string, len(r.rows))
	for i, w := range r.rows {
		blocks[i] = w.Block
	}
	var cells []verdict.Cell
	for _, at := range r.places() {
		if at.path != path {
			continue
		}
		for _, figure := range r.cells[at].of(test) {
			cells = append(cells, verdict.Cell{From: at.from, To: at.to, Value: figure})
		}
	}
	return verdict.Outliers(len(r.rows), blocks, cells)
}

// againRounds bounds what is measured again: where more looks odd, it is not single pairs.
const againRounds = 2

// again measures pairs once more that look odd by one visit alone.
func (r *run) again(ctx context.Context) error {
	for _, m := range metrics {
		spec := r.bandwidth()
		if m.test == probe.TCPLatency {
			spec = r.latency()
		}
		doubted := map[verdict.Pair]bool{}
		var visits []visit
		for _, path := range measuredPaths {
			_, again := r.judge(path, m.test)
			for _, p := range again {
				if doubted[p] {
					continue
				}
				doubted[p] = true
				visits = append(visits, visit{from: p.From, to: p.To, tests: []probe.Spec{spec}, door: r.door(p)})
			}
		}
		rounds := disjoint(visits, len(r.rows))
		for _, round := range rounds[:min(againRounds, len(rounds))] {
			r.round(ctx, m.name+" of odd pairs, once more", round)
		}
	}
	return nil
}

// door is the shared service by which a pair was measured; empty for none.
func (r *run) door(p verdict.Pair) string {
	for _, v := range r.doors {
		if v.from == p.From && v.to == p.To {
			return v.door
		}
	}
	return ""
}

// outliers are what is unlike the rest, on all paths, in words.
func (r *run) outliers() []probe.Outlier {
	list := []probe.Outlier{}
	several := r.severalPaths()
	for _, path := range measuredPaths {
		for _, m := range metrics {
			found, _ := r.judge(path, m.test)
			for _, o := range found {
				t := probe.Outlier{Kind: string(o.Kind), Name: r.nameOf(o), Path: path, Metric: m.name, Share: o.Share}
				t.Sentence = r.sentence(o, m.test)
				if several {
					t.Sentence += fmt.Sprintf(", on the %s path", path)
				}
				list = append(list, t)
			}
		}
	}
	return list
}

func (r *run) severalPaths() bool {
	paths := map[probe.Path]bool{}
	for at := range r.cells {
		paths[at.path] = true
	}
	return len(paths) > 1
}

// nameOf is the agent's, the block's, or that of the pair.
func (r *run) nameOf(o verdict.Outlier) string {
	switch {
	case o.Kind == verdict.OnePair:
		return r.rows[o.From].Name + "→" + r.rows[o.To].Name
	case o.Kind == verdict.Sends:
		return r.rows[o.From].Name
	case o.Kind == verdict.Receives:
		return r.rows[o.To].Name
	case o.FromBlock != "" && o.ToBlock != "" && o.FromBlock != o.ToBlock:
		return o.FromBlock + "→" + o.ToBlock
	case o.FromBlock != "":
		return o.FromBlock
	}
	return o.ToBlock
}

// wording is how outliers are told, each of a name and its share.
type wording struct{ sends, receives, within, between string }

var wordings = map[probe.Test]wording{
	probe.TCPBandwidth: {"%s sends at %s", "%s receives at %s", "pairs within %s carry %s", "%s carries %s"},
	probe.TCPLatency: {
		"round trips that %s asks for take %s", "round trips that %s answers take %s",
		"round trips within %s take %s", "round trips %s take %s",
	},
}

// sentence says it as people do.
func (r *run) sentence(o verdict.Outlier, test probe.Test) string {
	format := wordings[test].between
	switch {
	case o.Kind == verdict.Sends || o.Kind == verdict.Block && o.ToBlock == "":
		format = wordings[test].sends
	case o.Kind == verdict.Receives || o.Kind == verdict.Block && o.FromBlock == "":
		format = wordings[test].receives
	case o.Kind == verdict.Block && o.FromBlock == o.ToBlock:
		format = wordings[test].within
	}
	return fmt.Sprintf(format, r.nameOf(o), percent(o.Share))
}

// percent is a share of the median; from twice on, how many times.
func percent(share float64) string {
	if share >= 2 {
		return fmt.Sprintf("%.1f times the median", share)
	}
	return fmt.Sprintf("%.0f %% of the median", math.Round(100*share))
}

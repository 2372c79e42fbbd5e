package scenario

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"taper.dev/taper/internal/balance"
)

// condition tells whether a decision is as expected, and what it was instead.
type condition func(balance.Decision) (held bool, got string)

func (e eval) verify(d balance.Decision) []error {
	var failures []error
	for _, x := range e.expects {
		holds, err := x.compile()
		if err != nil {
			return []error{err}
		}
		if ok, got := holds(d); !ok {
			failures = append(failures, fmt.Errorf("line %d: at %s: expected %s, got %s", x.line, e.at, x.text, got))
		}
	}
	return failures
}

// compile reads one of
//
//	held [REASON] | not held | reason ENDPOINT REASON | weights equal
//	QUANTITY NAME < or > QUANTITY NAME | QUANTITY NAME = NUMBER within PERCENT%
//
// where QUANTITY is weight, share, proposed, demand (ms), idle (cores) or
// utilization.
func (x expectation) compile() (condition, error) {
	a := x.args
	switch {
	case a[0] == "held" && len(a) <= 2:
		return held(a[1:]), nil
	case x.text == "not held":
		return func(d balance.Decision) (bool, string) { return d.Hold.Reason == "", string(d.Hold.Reason) }, nil
	case x.text == "weights equal":
		return weightsEqual, nil
	case a[0] == "reason" && len(a) == 3:
		return reasonIs(a[1], balance.Reason(a[2])), nil
	case len(a) == 5 && (a[2] == "<" || a[2] == ">"):
		return compare(a)
	case len(a) == 6 && a[2] == "=" && a[4] == "within":
		return about(a)
	}
	return nil, fmt.Errorf("cannot read this expectation")
}

func held(args []string) condition {
	return func(d balance.Decision) (bool, string) {
		got := string(d.Hold.Reason)
		if len(args) == 0 {
			return got != "", "not held"
		}
		if got == "" {
			return false, "not held"
		}
		return got == args[0], "held " + got
	}
}

func weightsEqual(d balance.Decision) (bool, string) {
	for _, v := range d.Verdicts {
		if v.Weight != d.Verdicts[0].Weight {
			return false, fmt.Sprint(d.Weights)
		}
	}
	return true, ""
}

func reasonIs(name string, want balance.Reason) condition {
	return func(d balance.Decision) (bool, string) {
		v, ok := verdictOf(d, name)
		if !ok {
			return false, "no endpoint " + name
		}
		return v.Reason == want, string(v.Reason)
	}
}

func compare(a []string) (condition, error) {
	left, err := quantity(a[0])
	if err != nil {
		return nil, err
	}
	right, err := quantity(a[3])
	if err != nil {
		return nil, err
	}
	return func(d balance.Decision) (bool, string) {
		l, okL := verdictOf(d, a[1])
		r, okR := verdictOf(d, a[4])
		if !okL || !okR {
			return false, "an endpoint that is not there"
		}
		got := fmt.Sprintf("%g and %g", left(l), right(r))
		if a[2] == "<" {
			return left(l) < right(r), got
		}
		return left(l) > right(r), got
	}, nil
}

func about(a []string) (condition, error) {
	q, err := quantity(a[0])
	if err != nil {
		return nil, err
	}
	want, err := strconv.ParseFloat(a[3], 64)
	if err != nil {
		return nil, err
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(a[5], "%"), 64)
	if err != nil {
		return nil, err
	}
	return func(d balance.Decision) (bool, string) {
		v, ok := verdictOf(d, a[1])
		if !ok {
			return false, "no endpoint " + a[1]
		}
		return math.Abs(q(v)-want) <= percent/100*math.Abs(want), fmt.Sprintf("%g", q(v))
	}, nil
}

func quantity(name string) (func(balance.Verdict) float64, error) {
	switch name {
	case "weight":
		return func(v balance.Verdict) float64 { return float64(v.Weight) }, nil
	case "share":
		return func(v balance.Verdict) float64 { return v.Share }, nil
	case "proposed":
		return func(v balance.Verdict) float64 { return v.Proposed }, nil
	case "demand":
		return func(v balance.Verdict) float64 { return 1000 * v.Demand }, nil
	case "idle":
		return func(v balance.Verdict) float64 { return v.Idle }, nil
	case "utilization":
		return func(v balance.Verdict) float64 { return v.Utilization }, nil
	}
	return nil, fmt.Errorf("unknown quantity %q: it is one of weight, share, proposed, demand, idle, utilization", name)
}

func verdictOf(d balance.Decision, name string) (balance.Verdict, bool) {
	for _, v := range d.Verdicts {
		if v.Address == name {
			return v, true
		}
	}
	return balance.Verdict{}, false
}

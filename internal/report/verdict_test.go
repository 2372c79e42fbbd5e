package report

import (
	"math"
	"testing"
)

// measuredArm has one decision, as an arm with a control loop has.
func measuredArm(name string, p99, cpu float64) Arm {
	arm := Arm{Name: name, Requests: 60000, P99: p99, CPU: cpu}
	if name != "least-request" && name != "round-robin" {
		arm.Weights = []WeightsAt{{At: 0}}
	}
	return arm
}

func TestVerdict(t *testing.T) {
	base := measuredArm("least-request", 78.6, 9.85)
	with := func(a Arm, change func(*Arm)) Arm { change(&a); return a }
	rounds := func(p99 ...float64) []Round {
		var all []Round
		for _, v := range p99 {
			all = append(all, Round{P99: v})
		}
		return all
	}
	tests := []struct {
		name string
		arms []Arm
		want string
	}{
		{"better", []Arm{base, measuredArm("least-latency", 30.9, 5.8)},
			"least-latency weights cut p99 by 61 % (78.6 → 30.9 ms) and CPU by 41 % (9.85 → 5.80 cores) against least-request, without a failed request."},
		{"worse", []Arm{base, measuredArm("equal-load", 157.2, 19.7)},
			"equal-load weights raised p99 by 100 % (78.6 → 157 ms) and CPU by 100 % (9.85 → 19.7 cores) against least-request, without a failed request."},
		{"mixed", []Arm{base, measuredArm("equal-load", 39.3, 10.835)},
			"equal-load weights cut p99 by 50 % (78.6 → 39.3 ms) but raised CPU by 10 % (9.85 → 10.8 cores) against least-request, without a failed request."},
		{"latency alike", []Arm{base, measuredArm("equal-load", 78.7, 7.88)},
			"equal-load weights left p99 as it was (78.6 → 78.7 ms) and cut CPU by 20 % (9.85 → 7.88 cores) against least-request, without a failed request."},
		{"all alike", []Arm{base, measuredArm("equal-load", 78.6, 9.85)},
			"equal-load weights left p99 as it was (78.6 → 78.6 ms) and CPU as it was (9.85 → 9.85 cores) against least-request, without a failed request."},
		{"never a cut of everything", []Arm{base, measuredArm("equal-load", 0.01, 9.85)},
			"equal-load weights cut p99 by 99 % (78.6 → 0.01 ms) and left CPU as it was (9.85 → 9.85 cores) against least-request, without a failed request."},
		{"errors after", []Arm{base, with(measuredArm("equal-load", 39.3, 4.925), func(a *Arm) { a.Errors = 1200 })},
			"equal-load weights cut p99 by 50 % (78.6 → 39.3 ms) and CPU by 50 % (9.85 → 4.92 cores) against least-request, but 1,200 of 60,000 requests failed."},
		{"errors before", []Arm{with(base, func(a *Arm) { a.Errors = 7 }), measuredArm("equal-load", 39.3, 4.925)},
			"equal-load weights cut p99 by 50 % (78.6 → 39.3 ms) and CPU by 50 % (9.85 → 4.92 cores) against least-request, without a failed request (least-request: 7 of 60,000)."},
		{"CPU not measured", []Arm{base, measuredArm("equal-load", 39.3, 0)},
			"equal-load weights cut p99 by 50 % (78.6 → 39.3 ms) against least-request, without a failed request; CPU was not measured."},
		{"rounds overlap", []Arm{
			with(base, func(a *Arm) { a.Rounds = rounds(70, 78.6, 90) }),
			with(measuredArm("equal-load", 74.67, 9.85), func(a *Arm) { a.Rounds = rounds(70, 74.67, 80) })},
			"equal-load weights cut p99 by 5 % (78.6 → 74.7 ms, rounds overlap) and left CPU as it was (9.85 → 9.85 cores) against least-request, without a failed request."},
		{"the last loop counts", []Arm{base, measuredArm("equal-load", 39.3, 9.85), measuredArm("round-robin", 300, 9.85)},
			"equal-load weights cut p99 by 50 % (78.6 → 39.3 ms) and left CPU as it was (9.85 → 9.85 cores) against least-request, without a failed request."},
		{"no loop", []Arm{base, measuredArm("round-robin", 157.2, 9.85)},
			"round-robin raised p99 by 100 % (78.6 → 157 ms) and left CPU as it was (9.85 → 9.85 cores) against least-request, without a failed request."},
		{"no arms", nil, "No verdict: the experiment has no arms."},
		{"one arm", []Arm{base}, "least-request alone: p99 is 78.6 ms, without a failed request; there is no other arm to compare it with."},
		{"first arm empty", []Arm{{Name: "least-request"}, measuredArm("equal-load", 39.3, 9)},
			"No verdict: least-request, the arm to compare with, has no data."},
		{"last arm empty", []Arm{base, {Name: "equal-load"}}, "No verdict: equal-load has no data; least-request has a p99 of 78.6 ms."},
		{"all failed", []Arm{base, with(measuredArm("equal-load", 0, 0), func(a *Arm) { a.Errors = 60000 })},
			"No verdict: equal-load answered none of its 60,000 requests; least-request has a p99 of 78.6 ms."},
		{"not a number", []Arm{measuredArm("least-request", math.NaN(), 9), base},
			"No verdict: least-request, the arm to compare with, has no latency measured."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := Experiment{Arms: test.arms}
			if got := e.Verdict(); got != test.want {
				t.Errorf("verdict\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

// Package answer says what results of package probe mean: in sentences, the answer
// first, and in the rows of figures that a terminal and a page both show. In comes a
// [probe.Result], [probe.Matrix], [probe.PageLoad] or [probe.Comparison]; out comes an
// [Answer], and beside it rows such as [Figures] and [Latencies].
//
// It holds no layout and no colours. What was not measured is [report.Missing], never 0.
package answer

// Answer is what a result says. The headline is a phrase, or a few, without a full stop;
// the rest are sentences, the most important first.
type Answer struct {
	Headline string
	Rest     []string
}

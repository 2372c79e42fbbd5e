package probe

import "time"

// keptPercent of the samples, the shortest, make a trimmed mean (TMP in the draft).
const keptPercent = 95

// RPM is the responsiveness of a responsiveness trial in round trips per minute, by the
// formula of draft-ietf-ippm-responsiveness-08, section "Aggregating the Measurements",
// "For the TCP-Only Case", in which TM is a one-sided trimmed mean of 95 % and times are
// milliseconds:
//
//	foreign = 60000 / ((TM(tcp_f) + TM(http_f)) / 2)
//	loaded  = 60000 / TM(http_l)
//	RPM     = (foreign + loaded) / 2
//
// Here tcp_f is Connect, http_f is RTT, and http_l is Load. It is false where one of them
// has no sample.
func RPM(t Trial) (float64, bool) {
	connect, ok1 := t.Connect.TrimmedMean(keptPercent)
	foreign, ok2 := t.RTT.TrimmedMean(keptPercent)
	loaded, ok3 := t.Load.TrimmedMean(keptPercent)
	if !ok1 || !ok2 || !ok3 {
		return 0, false
	}
	perMinute := func(roundTrip time.Duration) float64 { return float64(time.Minute) / float64(roundTrip) }
	return (perMinute((connect+foreign)/2) + perMinute(loaded)) / 2, true
}

// TrimmedMean is the mean of the shortest so many percent, of one sample at least; false
// if there is none.
func (d *Distribution) TrimmedMean(percent float64) (time.Duration, bool) {
	if d == nil || d.Count() == 0 {
		return 0, false
	}
	kept := max(1, int64(float64(d.Count())*percent/100))
	left, sum := kept, 0.0
	for _, bar := range d.histogram.Distribution() {
		n := min(bar.Count, left)
		sum += float64(n) * float64(bar.From+bar.To) / 2
		left -= n
	}
	return max(1, time.Duration(sum/float64(kept))), true
}

package trap

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// span writes a duration with two or three digits: 420 µs, 9.3 ms, 86 ms, 5.0 s,
// 15 min. Titles are read by people; outputs that compute have Finding.Cost.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < 10*time.Millisecond-50*time.Microsecond:
		return strconv.FormatFloat(d.Seconds()*1e3, 'f', 1, 64) + " ms"
	case d < time.Second-500*time.Microsecond:
		return strconv.FormatFloat(d.Seconds()*1e3, 'f', 0, 64) + " ms"
	case d < 100*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < 100*time.Minute:
		return strconv.FormatFloat(d.Minutes(), 'f', 0, 64) + " min"
	}
	return strconv.FormatFloat(d.Hours(), 'f', 1, 64) + " h"
}

// longWord is how much of a text from packets is shown, in characters.
const longWord = 80

// plain is a text from packets as it can be shown: without what moves cursors.
func plain(text string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		n++
		switch {
		case n > longWord+1:
			return -1
		case n > longWord:
			return '…'
		case !unicode.IsPrint(r) || r == utf8.RuneError:
			return '?'
		}
		return r
	}, text)
}

// count writes how many there are of something: 1 query, 2 queries.
func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatUint(n, 10) + " " + many
}

// amount writes how many there are on average: 2, or 2.4.
func amount(sum, n uint64) string {
	if n == 0 || sum%n == 0 {
		return strconv.FormatUint(sum/max(n, 1), 10)
	}
	return strconv.FormatFloat(float64(sum)/float64(n), 'f', 1, 64)
}

// inRequests says in which requests something happens: "each request", or how many of
// how many.
func inRequests(n uint64, s Scene) string {
	if n >= s.Requests {
		return "each request"
	}
	return fmt.Sprintf("%d of %d requests", n, s.Requests)
}

// atCost ends a title with what was lost: a request's average if requests paid.
func (c *charge) atCost(s Scene) string {
	if c.lost == 0 {
		return "none of it lies within a request of this capture"
	}
	return fmt.Sprintf("%s cost %s", inRequests(c.requests, s), span(c.each()))
}

// onAverage ends a title with what was lost, where requests may have paid at several
// places.
func (c *charge) onAverage(s Scene) string {
	if c.lost == 0 || s.Requests == 0 {
		return "none of it lies within a request of this capture"
	}
	return fmt.Sprintf("a request waited %s for it on average", span(c.cost(s)))
}

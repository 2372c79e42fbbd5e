package text

import (
	"fmt"
	"unicode/utf8"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/terminal"
)

var trends = map[report.Trend]terminal.Style{report.Better: terminal.Green, report.Worse: terminal.Red}

// arrows lines up a column of "before → after".
type arrows struct{ before, after int }

func (a *arrows) fit(v report.BeforeAfter) {
	a.before = max(a.before, utf8.RuneCountInString(v.Before))
	a.after = max(a.after, utf8.RuneCountInString(v.After))
}

func (a *arrows) draw(v report.BeforeAfter) string {
	return fmt.Sprintf("%*s → %*s", a.before, v.Before, a.after, v.After)
}

package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain takes out what could move the cursor, or turn around what is read.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
}

// Wrap breaks a text between words into lines of so many characters, or of more where a
// word has more. A width of 0 or less is no limit. There is always a line.
func Wrap(text string, width int) []string {
	var lines []string
	var line strings.Builder
	length := 0
	for word := range strings.FieldsSeq(Plain(text)) {
		n := utf8.RuneCountInString(word)
		switch {
		case length == 0:
		case width > 0 && length+1+n > width:
			lines = append(lines, line.String())
			line.Reset()
			length = 0
		default:
			line.WriteByte(' ')
			length++
		}
		line.WriteString(word)
		length += n
	}
	return append(lines, line.String())
}

// Fit makes a text n characters long, by cutting or padding it at its end.
func Fit(s string, n int) string { return fmt.Sprintf("%-*s", n, Shorten(s, n)) }

// Shorten makes a text at most n characters long, by cutting its end.
func Shorten(s string, n int) string {
	s = Plain(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Elide makes a text at most n characters long by leaving out its middle: of addresses,
// where to stands in front and what for at the end.
func Elide(s string, n int) string {
	s = Plain(s)
	r := []rune(s)
	if len(r) <= n || n < 3 {
		return Shorten(s, n)
	}
	front := n / 2
	return string(r[:front]) + "…" + string(r[len(r)-(n-front-1):])
}

// tail makes a text at most n characters long, by cutting its beginning.
func tail(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return "…" + string(r[len(r)-n+1:])
}

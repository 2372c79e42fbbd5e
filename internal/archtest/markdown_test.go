package archtest

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// document is what the check needs to know of a Markdown file, read as GitHub
// reads it. Headings are those written with #.
type document struct {
	links   []string
	anchors map[string]bool
	// targets are the make targets named in code.
	targets []string
}

var (
	linkPattern      = regexp.MustCompile(`\]\(<?([^()<>\s]+)>?(?:\s+"[^"]*")?\)`)
	referencePattern = regexp.MustCompile(`^ {0,3}\[[^\]^]+\]:\s+<?([^<>\s]+)>?`)
	attributePattern = regexp.MustCompile(`\b(?:href|src)="([^"]+)"`)
	idPattern        = regexp.MustCompile(`\b(?:id|name)="([^"]+)"`)
	headingPattern   = regexp.MustCompile(`^ {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$`)
	codePattern      = regexp.MustCompile("`+([^`]+)`+")
	labelPattern     = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	targetPattern    = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	commandEnd       = regexp.MustCompile(`&&|\|\||[;|]`)
	rulePattern      = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*)\s*:(?:[^=]|$)`)
)

func parseMarkdown(text string) document {
	d := document{anchors: map[string]bool{}}
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		bare := strings.TrimLeft(line, " \t>")
		switch {
		case fence != "":
			if strings.HasPrefix(bare, fence) {
				fence = ""
			} else {
				d.targets = append(d.targets, makeTargets(line)...)
			}
		case strings.HasPrefix(bare, "```"), strings.HasPrefix(bare, "~~~"):
			fence = bare[:3]
		default:
			d.prose(line)
		}
	}
	return d
}

// prose reads a line that is not in a code block.
func (d *document) prose(line string) {
	if m := headingPattern.FindStringSubmatch(line); m != nil {
		d.heading(m[1])
	}
	for _, m := range codePattern.FindAllStringSubmatch(line, -1) {
		d.targets = append(d.targets, makeTargets(m[1])...)
	}
	line = codePattern.ReplaceAllString(line, "")
	for _, pattern := range []*regexp.Regexp{linkPattern, referencePattern, attributePattern} {
		for _, m := range pattern.FindAllStringSubmatch(line, -1) {
			d.links = append(d.links, m[1])
		}
	}
	for _, m := range idPattern.FindAllStringSubmatch(line, -1) {
		d.anchors[m[1]] = true
	}
}

// heading adds a heading's anchor; the second one of a name gets the suffix -1.
func (d *document) heading(text string) {
	slug := anchorOf(text)
	unique := slug
	for n := 1; d.anchors[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", slug, n)
	}
	d.anchors[unique] = true
}

// anchorOf returns the anchor that GitHub gives a heading.
func anchorOf(heading string) string {
	heading = labelPattern.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// makeTargets returns the targets that a line of shell asks make for.
func makeTargets(line string) []string {
	var targets []string
	line, _, _ = strings.Cut(line, "#")
	for _, command := range commandEnd.Split(line, -1) {
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(command), "$ "))
		for len(words) > 0 && strings.Contains(words[0], "=") { // VARIABLE=value make …
			words = words[1:]
		}
		if len(words) == 0 || words[0] != "make" {
			continue
		}
		for _, word := range words[1:] {
			if targetPattern.MatchString(word) {
				targets = append(targets, word)
			}
		}
	}
	return targets
}

// rules returns the targets that a Makefile has.
func rules(makefile string) map[string]bool {
	has := map[string]bool{}
	for _, m := range rulePattern.FindAllStringSubmatch(makefile, -1) {
		has[m[1]] = true
	}
	return has
}

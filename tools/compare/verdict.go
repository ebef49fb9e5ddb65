package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/tools/compare/probe"
)

// Verdict is the result of one library for one document.
type Verdict string

// The verdicts.
const (
	Exact    Verdict = "exact"    // the output equals the document
	Lost     Verdict = "lost"     // a part of the document is missing from the output
	Changed  Verdict = "changed"  // a part of the output is different or new
	Refused  Verdict = "refused"  // decoding fails
	Accepted Verdict = "accepted" // decoding succeeds, although it should fail
	NoType   Verdict = "no type"  // the library has no Go type for the subject of the document
)

// Cell is a verdict with its reasons.
type Cell struct {
	Verdict Verdict
	Wrong   bool     // the verdict is an error
	Notes   []string // Markdown
}

// judge compares the output of a trial with its input.
func judge(in Input, t probe.Trial) Cell {
	c := verdict(in, t)
	switch c.Verdict {
	case Lost, Changed, Accepted:
		c.Wrong = true
	case Refused:
		c.Wrong = in.Want == Keep
	}
	return c
}

func verdict(in Input, t probe.Trial) Cell {
	switch {
	case !t.Tried:
		return Cell{Verdict: NoType}
	case t.Refused != "":
		return Cell{Verdict: Refused, Notes: []string{code(goType.ReplaceAllString(t.Refused, "$1"))}}
	case t.Untyped:
		return Cell{Verdict: NoType}
	case t.Stuck != "" && in.Want == Refuse:
		return Cell{Verdict: Accepted, Notes: []string{"encoding fails: " + code(t.Stuck)}}
	case t.Stuck != "":
		return Cell{Verdict: Lost, Notes: []string{"encoding fails: " + code(t.Stuck)}}
	case in.Want == Refuse:
		return Cell{Verdict: Accepted, Notes: outcome(in, t)}
	}
	if err := codec.Valid(t.Out, codec.MaxDepth(len(t.Out))); err != nil {
		return Cell{Verdict: Changed, Notes: []string{fmt.Sprintf("the output is %s: %v", code(string(t.Out)), err)}}
	}
	changes, err := Compare([]byte(in.Doc), t.Out)
	if err != nil { // nested deeper than encoding/json reads
		if string(t.Out) == in.Doc {
			return Cell{Verdict: Exact}
		}
		return Cell{Verdict: Changed, Notes: []string{err.Error()}}
	}
	c := Cell{Verdict: Exact}
	for _, change := range changes {
		c.Notes = append(c.Notes, change.String())
		if change.New == "" {
			c.Verdict = Lost
		} else if c.Verdict == Exact {
			c.Verdict = Changed
		}
	}
	return c
}

// goType matches what encoding/json says of a Go type, which depends on the version of Go.
var goType = regexp.MustCompile(`(json: cannot unmarshal .*?) into .*`)

// outcome describes the output for an accepted document.
func outcome(in Input, t probe.Trial) []string {
	if codec.Valid([]byte(in.Doc)) == nil {
		changes, err := Compare([]byte(in.Doc), t.Out)
		if err == nil && len(changes) == 0 {
			return []string{"the output equals the input"}
		}
	}
	return []string{"the output is " + code(string(t.Out))}
}

// code formats a text as Markdown code. It shortens the text and escapes line breaks.
func code(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		s = strings.Trim(fmt.Sprintf("%+q", s), `"`)
		s = strings.ReplaceAll(s, `\"`, `"`)
	}
	const most = 160
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

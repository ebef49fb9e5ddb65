package mcpwire_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

const comparePage = "docs/reference/compare.md"

var (
	compareCell    = regexp.MustCompile(`^(yes|partly|no)\b`)
	compareLink    = regexp.MustCompile(`\[([^\[\]]+)\]\(([^)]+)\)`)
	compareComment = regexp.MustCompile(`<!-- .+ -->`)
)

// Each row of docs/reference/compare.md has an outcome for each of the four SDKs, and what shows
// it: a link for mcpwire, and a link or a comment for the others.
func TestComparePageShowsItsOutcomes(t *testing.T) {
	rows := 0
	for i, line := range strings.Split(readText(t, comparePage), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| | ") {
			continue
		}
		rows++
		for _, fault := range faultsOfRow(line) {
			t.Errorf("%s:%d: %s", comparePage, i+1, fault)
		}
	}
	if rows < 50 {
		t.Errorf("%s has %d rows", comparePage, rows)
	}
}

func TestFaultsOfRowsAreFound(t *testing.T) {
	for row, want := range map[string]string{
		"| a | yes [b](c) | yes <!-- d --> | no <!-- absent: e --> | partly: f <!-- g --> |": "",
		"| a | no | no [b](c) | no <!-- d --> | no <!-- e --> |":                             "",
		"| a | yes [b](c) | yes <!-- d --> | no <!-- e --> |":                                "3 cells",
		"| a | yes | no <!-- b --> | no <!-- c --> | no <!-- d --> |":                        "no link",
		"| a | no | no | no <!-- c --> | no <!-- d --> |":                                    "nothing shows",
		"| a | no | maybe <!-- b --> | no <!-- c --> | no <!-- d --> |":                      "no outcome",
		"| a | no | partly <!-- b --> | no <!-- c --> | no <!-- d --> |":                     "no reason",
	} {
		got := strings.Join(faultsOfRow(row), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", row, got, want)
		}
	}
}

// faultsOfRow returns what is wrong with a row of the comparison.
func faultsOfRow(row string) (faults []string) {
	cells := strings.Split(strings.Trim(row, "| "), " |")[1:]
	if len(cells) != 4 {
		return []string{fmt.Sprintf("%d cells, want 4", len(cells))}
	}
	for i, cell := range cells {
		cell = strings.TrimSpace(cell)
		link, comment := compareLink.MatchString(cell), compareComment.MatchString(cell)
		outcome := compareCell.FindString(cell)
		switch {
		case outcome == "":
			faults = append(faults, fmt.Sprintf("no outcome in %q", cell))
		case outcome == "partly" && !strings.HasPrefix(cell, "partly: "):
			faults = append(faults, fmt.Sprintf("no reason in %q", cell))
		case i == 0 && outcome != "no" && !link:
			faults = append(faults, fmt.Sprintf("no link in %q", cell))
		case i > 0 && !link && !comment:
			faults = append(faults, fmt.Sprintf("nothing shows %q", cell))
		}
	}
	return faults
}

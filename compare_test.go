package mcpwire_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// Links of docs/reference/compare.md lead to files of this repository, headings of them, and tests
// in them.
func TestComparePageLinksExist(t *testing.T) {
	for _, m := range compareLink.FindAllStringSubmatch(readText(t, comparePage), -1) {
		text, target := m[1], m[2]
		if strings.HasPrefix(target, "https://") {
			continue
		}
		name, heading, _ := strings.Cut(target, "#")
		file := comparePage
		if name != "" {
			file = filepath.Join(filepath.Dir(comparePage), name)
		}
		info, err := os.Stat(file)
		switch {
		case err != nil:
			t.Errorf("[%s](%s): %v", text, target, err)
		case heading != "" && !slices.Contains(anchors(readText(t, file)), heading):
			t.Errorf("[%s](%s): no such heading", text, target)
		case strings.HasPrefix(text, "Test") && (info.IsDir() || !strings.Contains(readText(t, file), "\nfunc "+text+"(t *testing.T)")):
			t.Errorf("[%s](%s): no such test", text, target)
		}
	}
}

// anchors returns the anchors of the headings of a page.
func anchors(page string) (all []string) {
	for line := range strings.Lines(page) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			all = append(all, anchor(strings.TrimSpace(heading)))
		}
	}
	return all
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

package taskrules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// maxLabels and maxLabel bound the labels of a member, and those that a task requires.
const (
	maxLabels = 16
	maxLabel  = 128 // bytes
)

// LabelSet returns the labels of a member of a fleet, or those that a task requires, without
// duplicates in ascending order, or nil if there are none. It fails unless they are at most 16
// different ones, each of 1 to 128 ASCII letters, digits and characters of "-_.:/=".
func LabelSet(labels []string) (set []string, err error) {
	for _, label := range labels {
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, notInLabel) {
			return nil, fmt.Errorf("label %q: want 1 to %d ASCII letters, digits and characters of \"-_.:/=\"", boundary.Text(label, maxLabel), maxLabel)
		}
	}
	set = Set(labels)
	if len(set) > maxLabels {
		return nil, fmt.Errorf("%d labels (must be at most %d)", len(set), maxLabels)
	}
	return set, nil
}

func notInLabel(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.:/=", r))
}

// Set returns a sorted copy of list without repetitions; nil if it is empty.
func Set(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	set := slices.Clone(list)
	slices.Sort(set)
	return slices.Compact(set)
}

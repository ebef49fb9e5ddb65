package task

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

// CheckLabels returns an error unless labels are valid for a [Member] or a [Request]: at most 16
// different ones, each of 1 to 128 ASCII letters, digits and characters of "-_.:/=".
func CheckLabels(labels []string) error {
	_, err := labelSet(labels)
	return err
}

// labelSet returns the labels without duplicates in ascending order, or nil if there are none. It
// fails as CheckLabels does.
func labelSet(labels []string) (set []string, err error) {
	for _, label := range labels {
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, notInLabel) {
			return nil, fmt.Errorf("label %q: want 1 to %d ASCII letters, digits and characters of \"-_.:/=\"", boundary.Text(label, maxLabel), maxLabel)
		}
	}
	set = sortedSet(labels)
	if len(set) > maxLabels {
		return nil, fmt.Errorf("%d labels (must be at most %d)", len(set), maxLabels)
	}
	return set, nil
}

func notInLabel(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.:/=", r))
}

// lacks returns the first of labels that the member does not have, or "".
func (m *Member) lacks(labels []string) string {
	for _, label := range labels {
		if !slices.Contains(m.Labels, label) {
			return label
		}
	}
	return ""
}

// Lacks returns the first of labels that this process does not have, or "" if it has all of them.
// It returns "" if the store is not shared: labels have no effect then.
func (m *Manager) Lacks(labels ...string) string {
	if m.fleet == nil {
		return ""
	}
	return m.cfg.Member.lacks(labels)
}

// sortedSet returns a sorted copy of list without repetitions; nil if it is empty.
func sortedSet(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	set := slices.Clone(list)
	slices.Sort(set)
	return slices.Compact(set)
}

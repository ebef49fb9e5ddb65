package task

import (
	"slices"
)

// lacks returns the first of labels that the member does not have, or "".
func (m *Member) lacks(labels []string) string {
	for _, label := range labels {
		if !slices.Contains(m.Labels, label) {
			return label
		}
	}
	return ""
}

// lacks returns the first of labels that this process does not have, or "" if it has all of them.
// It returns "" if the store is not shared: labels have no effect then.
func (m *Manager) lacks(labels ...string) string {
	if !m.fleet.others() {
		return ""
	}
	return m.cfg.Member.lacks(labels)
}

package rerun_test

import (
	"maps"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
)

func TestGroupsOfPath(t *testing.T) {
	for path, want := range map[string]map[string]int{
		"":                        {},
		"3.1":                     {"": 3},
		"3.1/20.attempts":         {"": 3, "3.1": 20},
		`"a"`:                     {},
		`"a/2.1\"/3.1"/4.2/"5.b"`: {`"a/2.1\"/3.1"`: 4},
		`1.2/"x"/7.1`:             {"": 1, `1.2/"x"`: 7},
	} {
		got := map[string]int{}
		rerun.AddGroups(got, path)
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	groups := map[string]int{"": 5}
	rerun.AddGroups(groups, "3.1")
	rerun.AddGroups(groups, "7.1")
	if groups[""] != 7 {
		t.Errorf("the latest group is %d", groups[""])
	}
}

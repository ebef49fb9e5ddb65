package embedtest

import (
	"slices"
	"testing"

	"github.com/mcpwire/mcpwire/internal/sdklimits"
)

// Each limit has a unique id, and its cases exist and run in its era.
func TestLimitsNameCases(t *testing.T) {
	ids := map[string]bool{}
	for _, l := range sdklimits.All {
		if ids[l.ID] {
			t.Errorf("two limits have the id %s", l.ID)
		}
		ids[l.ID] = true
		if l.Limit == "" || l.Reason == "" || l.SDK != "go-sdk" && l.SDK != "mcp-go" {
			t.Errorf("limit %+v", l)
		}
		for _, name := range l.Cases {
			n := slices.IndexFunc(cases, func(tt testCase) bool { return tt.name == name })
			switch {
			case n < 0:
				t.Errorf("limit %s: there is no case %q", l.ID, name)
			case l.Era != "" && cases[n].era != "" && l.Era != cases[n].era:
				t.Errorf("limit %s: case %q does not run in era %s", l.ID, name, l.Era)
			}
		}
	}
	names := map[string]bool{}
	for _, tt := range cases {
		if names[tt.name] {
			t.Errorf("two cases have the name %q", tt.name)
		}
		names[tt.name] = true
	}
}

package server

import (
	"errors"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
)

// Roots are not cached if the client announces a change during the request, or if the request
// fails.
func TestRootsChangedDuringRequestAreNotCached(t *testing.T) {
	var r rootCache
	requests := 0
	get := func(during func()) error {
		_, err := r.get(func() ([]mcp.Root, error) {
			requests++
			if during == nil {
				return nil, errors.New("no response")
			}
			during()
			return []mcp.Root{{URI: "file:///a"}}, nil
		})
		return err
	}
	if get(nil) == nil {
		t.Error("the error was lost")
	}
	get(r.changed)
	get(func() {})
	get(func() {})
	if requests != 3 {
		t.Errorf("got %d requests, want 3", requests)
	}
}

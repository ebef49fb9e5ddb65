package server

import (
	"errors"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
)

// An answer that was under way when the client announced a change is not kept, and neither is an
// error.
func TestRootsThatChangeMeanwhileAreNotKept(t *testing.T) {
	var r rootCache
	asked := 0
	get := func(meanwhile func()) error {
		_, err := r.get(func() ([]mcp.Root, error) {
			asked++
			if meanwhile == nil {
				return nil, errors.New("no answer")
			}
			meanwhile()
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
	if asked != 3 {
		t.Errorf("the client was asked %d times, want 3", asked)
	}
}

package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
)

// A caller does not wait for the compilation of an output schema longer than its context, nor for
// that of another tool.
func TestCallersLeaveCompilation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, quick := &mcp.Tool{Name: "slow", OutputSchema: &mcp.ToolOutputSchema{}}, &mcp.Tool{Name: "quick", OutputSchema: &mcp.ToolOutputSchema{}}
		x := outputs{compiled: map[*mcp.Tool]*output{slow: {done: make(chan struct{})}}}
		left := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _, err := x.schema(ctx, slow)
			left <- err
		}()
		synctest.Wait()
		if s, fault, err := x.schema(t.Context(), quick); s == nil || fault != nil || err != nil {
			t.Errorf("another tool: %v, %v, %v", s, fault, err)
		}
		if err := <-left; err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
	})
}

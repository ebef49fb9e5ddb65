package everything

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// step is the time between two reports. It is longer than the interval within which a session
// merges reports.
const step = 120 * time.Millisecond

// addTimed adds slow tools.
func addTimed(s *server.Server, disconnect func(context.Context) bool) {
	server.AddTool(s, "test_tool_with_logging", "Logs its steps.", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		for i, text := range []string{"Begun.", "At work.", "Done."} {
			if err := pause(ctx, i); err != nil {
				return "", err
			}
			if err := c.Log(ctx, mcp.LoggingLevelInfo, "everything", text); err != nil {
				return "", err
			}
		}
		return "Three messages were logged.", nil
	})
	server.AddTool(s, "test_tool_with_progress", "Reports its progress.", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		for i := range 3 {
			if err := pause(ctx, i); err != nil {
				return "", err
			}
			if err := c.Progress(50*float64(i), 100, ""); err != nil {
				return "", err
			}
		}
		return "Progress was reported.", nil
	})
	server.AddTool(s, "test_reconnection", "Cuts the connection before it responds.", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		cut := disconnect(ctx)
		if err := pause(ctx, 1); err != nil {
			return "", err
		}
		return fmt.Sprintf("The connection was cut: %v.", cut), nil
	})
	server.AddTool(s, "countdown", "Counts down from a number, one second each. Best called as a task.", countdown, server.Tasks(receiver.Support{Mode: mcp.TaskSupportOptional, Restartable: true, Immediate: "The countdown has begun."}))
}

// pause waits for one step, except before the first one.
func pause(ctx context.Context, i int) error {
	if i == 0 {
		return nil
	}
	return sleep(ctx, step)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// launch is the form that countdown shows on request.
type launch struct {
	Go bool `json:"go" jsonschema:"whether to continue"`
}

func countdown(ctx context.Context, c *server.Call, in struct {
	From int  `json:"from" jsonschema:"how many seconds to count"`
	Ask  bool `json:"ask,omitempty" jsonschema:"whether to ask the user before the end"`
}) (string, error) {
	for i := range in.From {
		if err := c.Progress(float64(i), float64(in.From), fmt.Sprintf("%d …", in.From-i)); err != nil {
			return "", err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return "", err
		}
	}
	if in.Ask {
		answer := launch{Go: true}
		action, err := server.Elicit(ctx, c, "Is everything ready?", &answer)
		if err != nil {
			return "", err
		}
		if action != mcp.ElicitActionAccept || !answer.Go {
			return "Called off.", nil
		}
	}
	return "Lift-off!", nil
}

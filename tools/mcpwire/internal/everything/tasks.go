package everything

import (
	"context"
	"errors"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// confirmation is the form that tasks ask for.
type confirmation struct {
	Confirm bool `json:"confirm"`
}

// addTasks adds tools that run as tasks of clients with the Tasks extension. The suite defines
// their names, arguments and outcomes.
func addTasks(s *server.Server) {
	atOnce := server.Tasks(receiver.Support{After: -1})
	soon := server.Tasks(receiver.Support{After: 100 * time.Millisecond})
	server.AddTool(s, "greet", "Greets somebody. Never a task.", func(_ context.Context, _ *server.Call, in nameForm) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	server.AddTool(s, "slow_compute", "Computes for some seconds.", func(ctx context.Context, _ *server.Call, in struct {
		Seconds float64 `json:"seconds"`
		Label   string  `json:"label,omitempty"`
	}) (string, error) {
		return "Computed " + in.Label + ".", sleep(ctx, time.Duration(in.Seconds*float64(time.Second)))
	}, soon)
	server.AddTool(s, "failing_job", "Fails after a second. Always a task.", func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		if err := sleep(ctx, time.Second); err != nil {
			return "", err
		}
		return "", errors.New("the job has failed")
	}, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired}))
	server.AddTool(s, "protocol_error_job", "Ends with an error of the protocol.", func(context.Context, *server.Call, none) (string, error) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the job has ended with an error"}
	}, atOnce)
	server.AddTool(s, "confirm_delete", "Asks the user to confirm, as if to delete a file.", func(ctx context.Context, c *server.Call, in struct {
		Filename string `json:"filename"`
	}) (string, error) {
		answer, err := askUser(ctx, c, "confirm", "Delete "+in.Filename+"?", new(confirmation))
		if err != nil || !answer.Confirm {
			return "Kept " + in.Filename + ".", err
		}
		return "Deleted " + in.Filename + ".", nil
	}, atOnce)
	server.AddTool(s, "multi_input", "Asks the user for a name and for a confirmation at the same time.", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		name := new(nameForm)
		err := c.RunAll(ctx, func(ctx context.Context) (err error) {
			_, err = askUser(ctx, c, "name", askName, name)
			return err
		}, func(ctx context.Context) error {
			_, err := askUser(ctx, c, "confirm", "Is that right?", new(confirmation))
			return err
		})
		return "Hello, " + name.Name + "!", err
	}, atOnce)
	server.AddTool(s, "test_tool_with_task", "Asks the user for a name, and works on it for half a second.", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		name, err := askUser(ctx, c, "user_name", askName, new(nameForm))
		if err != nil {
			return "", err
		}
		return "Worked for " + name.Name + ".", sleep(ctx, time.Second/2)
	}, soon)
}

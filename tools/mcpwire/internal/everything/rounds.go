package everything

import (
	"context"
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// The forms of the tools and the prompt that need input.
type (
	nameForm struct {
		Name string `json:"name"`
	}
	colorForm struct {
		Color string `json:"color"`
	}
	confirmForm struct {
		OK bool `json:"ok"`
	}
	contextForm struct {
		Context string `json:"context"`
	}
)

const (
	askName     = "What is your name?"
	askGreeting = "Generate a greeting"
)

// addRounds adds tools and a prompt that need input from the client. In revisions without sessions,
// they return input requests under the keys that the suite defines.
func addRounds(s *server.Server) {
	add := func(name, description string, f func(ctx context.Context, c *server.Call) (string, error)) {
		server.AddTool(s, name, description, func(ctx context.Context, c *server.Call, _ none) (string, error) { return f(ctx, c) })
	}
	add("test_input_required_result_elicitation", "Asks the user for a name.", func(ctx context.Context, c *server.Call) (string, error) {
		name, err := askUser(ctx, c, "user_name", askName, new(nameForm))
		return "Hello, " + name.Name + "!", err
	})
	add("test_input_required_result_sampling", "Asks the client's model.", func(ctx context.Context, c *server.Call) (string, error) {
		return sample(server.InputName(ctx, "capital_question"), c, "What is the capital of France?")
	})
	add("test_input_required_result_list_roots", "Lists the roots of the client.", func(ctx context.Context, c *server.Call) (string, error) {
		return listRoots(server.InputName(ctx, "client_roots"), c)
	})
	add("test_input_required_result_multiple_inputs", "Asks the user and the client's model, and lists the roots, in one round.", func(ctx context.Context, c *server.Call) (string, error) {
		return askAll(ctx, c, true, true, true)
	})
	add("test_input_required_result_capabilities", "Requests the input that the client supports.", func(ctx context.Context, c *server.Call) (string, error) {
		client := c.ClientCapabilities()
		if client == nil {
			client = new(mcp.ClientCapabilities)
		}
		return askAll(ctx, c, client.Elicitation != nil, client.Sampling != nil, client.Roots != nil)
	})
	add("test_input_required_result_multi_round", "Asks the user two questions, one after the other.", func(ctx context.Context, c *server.Call) (string, error) {
		name, err := askUser(ctx, c, "step1", "Step 1: What is your name?", new(nameForm))
		if err != nil {
			return "", err
		}
		color, err := askUser(ctx, c, "step2", "Step 2: What is your favorite color?", new(colorForm))
		return fmt.Sprintf("%s likes %s.", name.Name, color.Color), err
	})
	confirm := func(ctx context.Context, c *server.Call) (string, error) {
		answer, err := askUser(ctx, c, "confirm", "Please confirm", new(confirmForm))
		return fmt.Sprintf("state-ok: confirmed is %v", answer.OK), err
	}
	add("test_input_required_result_request_state", "Asks the user to confirm.", confirm)
	add("test_input_required_result_tampered_state", "Asks the user to confirm.", confirm)
	add("test_streaming_elicitation", "Reports progress and asks the user to confirm.", func(ctx context.Context, c *server.Call) (string, error) {
		if err := c.Progress(1, 2, "asking"); err != nil {
			return "", err
		}
		return confirm(ctx, c)
	})
	add("test_missing_capability", "Needs the client's model.", func(ctx context.Context, c *server.Call) (string, error) {
		return sample(ctx, c, askGreeting)
	})
	server.AddPrompt(s, "test_input_required_result_prompt", "Asks the user for the context of the prompt.", func(ctx context.Context, c *server.Call, _ map[string]string) (string, error) {
		answer, err := askUser(ctx, c, "user_context", "What context should the prompt use?", new(contextForm))
		return "Please consider this context: " + answer.Context, err
	})
}

// askUser asks the user to fill in a form and returns it, unchanged if the user declines. The input
// request has the given key.
func askUser[T any](ctx context.Context, c *server.Call, key, message string, form *T) (*T, error) {
	_, err := server.Elicit(server.InputName(ctx, key), c, message, form)
	return form, err
}

// askAll makes up to three input requests in one round.
func askAll(ctx context.Context, c *server.Call, user, model, roots bool) (string, error) {
	var functions []func(context.Context) error
	texts := make([]string, 3)
	if user {
		functions = append(functions, func(ctx context.Context) error {
			name, err := askUser(ctx, c, "user_name", askName, new(nameForm))
			texts[0] = "Hello, " + name.Name + "!"
			return err
		})
	}
	if model {
		functions = append(functions, func(ctx context.Context) (err error) {
			texts[1], err = sample(server.InputName(ctx, "greeting"), c, askGreeting)
			return err
		})
	}
	if roots {
		functions = append(functions, func(ctx context.Context) (err error) {
			texts[2], err = listRoots(server.InputName(ctx, "client_roots"), c)
			return err
		})
	}
	err := c.RunAll(ctx, functions...)
	return strings.Join(texts, "\n"), err
}

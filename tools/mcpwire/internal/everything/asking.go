package everything

import (
	"context"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// user is the input that the tool test_elicitation requests.
type user struct {
	Username string `json:"username" jsonschema:"what to call you"`
	Email    string `json:"email" jsonschema:"where to write to"`
}

// Forms that cannot be inferred from a struct: one with all kinds of defaults, and one with all
// kinds of choices.
const (
	defaults = `{"type":"object","properties":{
		"name":{"type":"string","default":"John Doe"},
		"age":{"type":"integer","default":30},
		"score":{"type":"number","default":95.5},
		"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
		"verified":{"type":"boolean","default":true}}}`
	choices = `{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"One"},{"const":"value2","title":"Two"},{"const":"value3","title":"Three"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["One","Two","Three"]},
		"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"One"},{"const":"value2","title":"Two"},{"const":"value3","title":"Three"}]}}}}`
)

// addAsking adds tools that send requests to the client.
func addAsking(s *server.Server) {
	server.AddTool(s, "test_sampling", "Samples the client's model.", func(ctx context.Context, c *server.Call, in struct {
		Prompt string `json:"prompt" jsonschema:"what to ask the model"`
	}) (string, error) {
		return sample(ctx, c, in.Prompt)
	})
	server.AddTool(s, "test_elicitation", "Requests a name and an address from the user.", func(ctx context.Context, c *server.Call, in struct {
		Message string `json:"message" jsonschema:"the message for the user"`
	}) (string, error) {
		var u user
		action, err := server.Elicit(ctx, c, in.Message, &u)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("The user's answer is %s: %s <%s>.", action, u.Username, u.Email), nil
	})
	server.AddTool(s, "roots", "Lists the roots of the client.", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		return listRoots(ctx, c)
	})
	addForm(s, "test_elicitation_sep1034_defaults", defaults)
	addForm(s, "test_elicitation_sep1330_enums", choices)
}

func listRoots(ctx context.Context, c *server.Call) (string, error) {
	roots, err := c.Roots(ctx)
	text := fmt.Sprintf("The client has %d roots.", len(roots))
	for _, r := range roots {
		text += "\n" + r.URI
	}
	return text, err
}

func sample(ctx context.Context, c *server.Call, prompt string) (string, error) {
	result, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{
		MaxTokens: 100,
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{
			Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: prompt}},
		}}},
	})
	if err != nil {
		return "", err
	}
	text := "The model " + result.Model + " says:"
	for _, block := range result.Content.Items {
		if t, ok := block.(*mcp.TextContent); ok {
			text += " " + t.Text
		}
	}
	return text, nil
}

// addForm adds a tool that requests a form from the user.
func addForm(s *server.Server, name, schema string) {
	params := &mcp.ElicitRequestFormParams{Message: "Please fill in this form."}
	if err := codec.Unmarshal([]byte(schema), &params.RequestedSchema); err != nil {
		panic(err) // schema is a constant
	}
	server.AddTool(s, name, "Asks the user to fill in a form.", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		result, err := c.ElicitForm(ctx, params)
		if err != nil {
			return "", err
		}
		text, err := codec.Marshal(result)
		return "The user's answer: " + string(text), err
	})
}

package everything

import (
	"context"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// addResources adds all kinds of resources.
func addResources(s *server.Server) {
	server.AddResource(s, "test://static-text", "static-text", text("A text that is always the same."), server.DefineResource(func(r *mcp.Resource) {
		r.MIMEType = new("text/plain")
		r.Description = new("A text.")
	}))
	server.AddResource(s, "test://static-binary", "static-binary", func(context.Context, *server.Call, server.Resource) ([]byte, error) {
		return pixel(), nil
	}, server.DefineResource(func(r *mcp.Resource) {
		r.MIMEType = new("image/png")
		r.Description = new("A red pixel.")
	}))
	server.AddResource(s, "test://watched-resource", "watched-resource", text("A text that is touched at times."), server.DefineResource(func(r *mcp.Resource) {
		r.MIMEType = new("text/plain")
		r.Description = new("A text to subscribe to: the tool touch changes it.")
	}))
	server.AddTemplate(s, "test://template/{id}/data", "template", func(_ context.Context, _ *server.Call, r server.Resource) (string, error) {
		data, err := codec.Marshal(value.Of(map[string]string{"id": r.Vars.Get("id")}))
		return string(data), err
	}, server.DefineTemplate(func(t *mcp.ResourceTemplate) {
		t.MIMEType = new("application/json")
		t.Description = new("Data for an id.")
	}), server.Complete("id", server.OneOf("1", "12", "123")))
	server.AddTool(s, "touch", "Notifies subscribers that the watched resource has changed.", func(_ context.Context, c *server.Call, _ none) (string, error) {
		c.Server().ResourceUpdated("test://watched-resource")
		return "Touched.", nil
	})
}

// text returns a handler for a constant resource.
func text(content string) server.ReadFunc[string] {
	return func(context.Context, *server.Call, server.Resource) (string, error) {
		return content, nil
	}
}

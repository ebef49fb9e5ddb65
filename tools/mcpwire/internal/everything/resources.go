package everything

import (
	"context"
	"errors"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// addResources adds all kinds of resources.
func addResources(s *server.Server) error {
	_, err := s.AddResource(mcp.Resource{Name: "static-text", URI: "test://static-text", MIMEType: new("text/plain"), Description: new("A text.")}, text("A text that is always the same."))
	_, err2 := s.AddResource(mcp.Resource{Name: "static-binary", URI: "test://static-binary", MIMEType: new("image/png"), Description: new("A red pixel.")},
		func(context.Context, *server.Call, server.Resource) ([]mcp.AnyResourceContents, error) {
			return server.BlobContents(pixel()), nil
		})
	_, err3 := s.AddResource(mcp.Resource{Name: "watched-resource", URI: "test://watched-resource", MIMEType: new("text/plain"), Description: new("A text to subscribe to: the tool touch changes it.")}, text("A text that is touched at times."))
	_, err4 := s.AddTemplate(mcp.ResourceTemplate{Name: "template", URITemplate: "test://template/{id}/data", MIMEType: new("application/json"), Description: new("Data for an id.")},
		func(_ context.Context, _ *server.Call, r server.Resource) ([]mcp.AnyResourceContents, error) {
			data, err := codec.Marshal(value.Of(map[string]string{"id": r.Vars.Get("id")}))
			return server.TextContents(string(data)), err
		}, server.Complete("id", server.OneOf("1", "12", "123")))
	_, err5 := server.AddTool(s, mcp.Tool{Name: "touch", Description: new("Notifies subscribers that the watched resource has changed.")},
		func(_ context.Context, c *server.Call, _ none) (string, error) {
			c.Server().ResourceUpdated("test://watched-resource")
			return "Touched.", nil
		})
	return errors.Join(err, err2, err3, err4, err5)
}

// text returns a handler for a constant resource.
func text(content string) server.ReadFunc {
	return func(context.Context, *server.Call, server.Resource) ([]mcp.AnyResourceContents, error) {
		return server.TextContents(content), nil
	}
}

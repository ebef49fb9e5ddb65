package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/servertest"
	"github.com/mcpwire/mcpwire/runtime/session"
)

func TestConfirm(t *testing.T) {
	for name, revisions := range map[string][]mcp.Revision{"session": nil, "without sessions": session.ModernRevisions()} {
		for response, want := range map[*mcp.ElicitResult]string{{Action: mcp.ElicitActionAccept}: "true", client.Decline(): "false", client.Cancel(): "false"} {
			t.Run(name+" "+string(response.Action), func(t *testing.T) {
				s := server.New("x", "1", nil)
				server.AddTool(s, "remove", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
					ok, err := server.Confirm(ctx, c, "Sure?")
					if err != nil {
						return "", err
					}
					action, err := server.Elicit(ctx, c, "Really?", &struct{}{})
					return fmt.Sprint(ok, " ", action), err
				})
				c := servertest.Connect(t, s, &client.Options{
					Session: session.Options{Revisions: revisions},
					Input: client.Input{Fill: func(ctx context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
						if f.RequestedSchema.Properties == nil || len(f.Fields) > 0 {
							t.Errorf("form %q: properties are %v, want an empty object", f.Message, f.RequestedSchema.Properties)
						}
						return response, nil
					}},
				})
				result, err := c.CallTool(t.Context(), "remove", nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := result.Content[0].(*mcp.TextContent).Text; got != want+" "+string(response.Action) {
					t.Errorf("got %q, want %q and the action", got, want)
				}
			})
		}
	}
}

func TestConfirmNeedsForms(t *testing.T) {
	s := server.New("x", "1", nil)
	server.AddTool(s, "remove", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		ok, err := server.Confirm(ctx, c, "Sure?")
		if err == nil || ok {
			t.Errorf("Confirm returned %t, %v", ok, err)
		}
		return "", err
	})
	result, err := servertest.Connect(t, s, nil).CallTool(t.Context(), "remove", nil)
	if err == nil && (result.IsError == nil || !*result.IsError) {
		t.Errorf("got %v, %v, want an error", result, err)
	}
}

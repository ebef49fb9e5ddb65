package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/console"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// callInRounds calls a tool that asks for input without a session: the input goes in rounds.
func (c *Client) callInRounds(ctx context.Context, rec *trace.Recording, show *console.Console) error {
	process, err := stdio.Start(c.Server)
	if err != nil {
		return err
	}
	revision := session.ModernRevisions()[:1]
	show.Line("calling export without a session, in revision %s", revision[0])
	peer, err := client.Connect(ctx, tapped{process, rec}, &client.Options{
		Info:    mcp.Implementation{Name: "mcpwire demo", Version: "1"},
		Session: session.Options{Revisions: revision},
		Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
			show.Line("the first round asks: %s", f.Message)
			show.Line("the answer is: mp4")
			return client.Accept(map[string]any{"format": "mp4"})
		}},
	})
	if err != nil {
		return fmt.Errorf("revision %s: %w", revision[0], err)
	}
	result, err := peer.CallTool(ctx, "export", nil)
	if err == nil {
		printResult(result, show)
	}
	return errors.Join(err, peer.Close())
}

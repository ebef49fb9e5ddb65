package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// tools is a server with one tool that echoes its arguments.
type tools struct{ mcp.UnimplementedServerHandler }

func (tools) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: string(p.Arguments)}}}, nil
}

// toolServer returns the side of a server with tools.
func toolServer(h session.Handler) sessiontest.Side {
	return sessiontest.Side{
		Server: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}},
		Config: session.Options{Handler: h},
	}
}

func TestConcurrentCallsGetTheirOwnAnswers(t *testing.T) {
	c, _ := sessiontest.Pair(t, sessiontest.Side{}, toolServer(sessiontest.ServerHandler(tools{}, nil)))
	var wg sync.WaitGroup
	for i := range 5000 {
		wg.Go(func() {
			arguments := fmt.Sprintf(`{"n":%d}`, i)
			outcome, err := mcp.ToServer{Caller: c}.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "echo", Arguments: json.RawMessage(arguments)})
			if err != nil {
				t.Error(err)
				return
			}
			if got := outcome.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text; got != arguments {
				t.Errorf("got the answer %s to %s", got, arguments)
			}
		})
	}
	wg.Wait()
}

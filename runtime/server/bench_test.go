package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

type place struct {
	City string `json:"city"`
	Days int    `json:"days"`
}

type forecast struct {
	City string `json:"city"`
	Rain bool   `json:"rain"`
}

// handWritten is a handler that serves the tool below without a server.
type handWritten struct{ mcp.UnimplementedServerHandler }

func (handWritten) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	var in place
	if err := codec.Unmarshal(p.Arguments, value.Of(&in)); err != nil {
		return nil, err
	}
	text, err := codec.Marshal(value.Of(forecast{in.City, in.Days > 2}))
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: string(text)}}, StructuredContent: text}, nil
}

// BenchmarkCall measures tools/call in memory, with client and server in one process: for a tool
// that is a Go function, for a raw tool, and for a handwritten handler that moves the same values
// and validates nothing.
func BenchmarkCall(b *testing.B) {
	result := must(server.Structured(forecast{"Oslo", true}))
	for _, way := range []struct {
		name string
		cfg  server.Config
		add  func(s *server.Server)
	}{
		{"handwritten", server.Config{Methods: map[string]session.Handler{"tools/call": session.ServerHandler(handWritten{}, nil)}}, func(*server.Server) {}},
		{"function", server.Config{}, func(s *server.Server) {
			must(server.AddTool(s, "weather", "", func(_ context.Context, _ *server.Call, in place) (forecast, error) {
				return forecast{in.City, in.Days > 2}, nil
			}))
		}},
		{"raw", server.Config{}, func(s *server.Server) {
			must(s.AddRawTool(mcp.Tool{Name: "weather"}, func(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) {
				return result, nil
			}))
		}},
	} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d callers", way.name, callers), func(b *testing.B) {
				s := newServer(b, way.cfg)
				way.add(s)
				c := connect(b, s, clientConfig{})
				params := &mcp.CallToolRequestParams{Name: "weather", Arguments: json.RawMessage(`{"city":"Oslo","days":3}`)}
				b.ReportAllocs()
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if _, err := (mcp.ToServer{Caller: c}).CallTool(b.Context(), params); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
			})
		}
	}
}

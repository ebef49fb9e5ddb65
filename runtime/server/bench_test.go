package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
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
		cfg  server.Options
		add  func(s *server.Server)
	}{
		{"handwritten", server.Options{Features: server.Features{Methods: map[string]session.Handler{"tools/call": sessiontest.ServerHandler(handWritten{}, nil)}}}, func(*server.Server) {}},
		{"function", server.Options{}, func(s *server.Server) {
			server.AddTool(s, "weather", "", func(_ context.Context, _ *server.Call, in place) (forecast, error) {
				return forecast{in.City, in.Days > 2}, nil
			})
		}},
		{"raw", server.Options{}, func(s *server.Server) {
			s.AddRawTool(mcp.Tool{Name: "weather"}, func(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) {
				return result, nil
			})
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

// BenchmarkRound measures modern calls of a tool: one that asks nothing, and one that asks for a form,
// with the response and the result. The second one sends two requests.
func BenchmarkRound(b *testing.B) {
	s := newServer(b, server.Options{})
	server.AddTool(s, "plain", "", func(_ context.Context, _ *server.Call, in place) (forecast, error) {
		return forecast{in.City, in.Days > 2}, nil
	})
	server.AddTool(s, "asking", "", func(ctx context.Context, c *server.Call, in place) (forecast, error) {
		result, err := c.ElicitForm(server.InputName(ctx, "who"), askForm)
		if err != nil {
			return forecast{}, err
		}
		return forecast{in.City, result.Action == mcp.ElicitActionAccept}, nil
	})
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	request := func(tool, more string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta + `,"name":"` + tool + `","arguments":{"city":"Oslo","days":3}` + more + `}}`)
	}
	run := func(b *testing.B, send func(tool string, text []byte) []byte) {
		b.Run("plain", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				send("plain", request("plain", ""))
			}
		})
		b.Run("input", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, state, _ := bytes.Cut(send("asking", request("asking", "")), []byte(`"requestState":"`))
				state, _, _ = bytes.Cut(state, []byte(`"`))
				answer := send("asking", request("asking", `,"inputResponses":{"who":{"action":"accept","content":{"name":"Ada"}}},"requestState":"`+string(state)+`"`))
				if !bytes.Contains(answer, []byte(`"rain":true`)) {
					b.Fatalf("got %s", answer)
				}
			}
		})
	}
	b.Run("memory", func(b *testing.B) {
		here, there := inmemory.Pair(inmemory.Options{})
		must(s.Serve(there))
		defer here.Close()
		run(b, func(_ string, text []byte) []byte {
			if err := here.Write(b.Context(), transport.Message{Text: text}); err != nil {
				b.Fatal(err)
			}
			return must(here.Read()).Text
		})
	})
	b.Run("HTTP", func(b *testing.B) {
		web := httptest.NewServer(must(s.Handler(nil)))
		defer web.Close()
		run(b, func(tool string, text []byte) []byte {
			req := must(http.NewRequest("POST", web.URL, bytes.NewReader(text)))
			req.Header = http.Header{
				"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
				"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool},
			}
			response := must(web.Client().Do(req))
			defer response.Body.Close()
			answer := must(io.ReadAll(response.Body))
			if response.StatusCode != http.StatusOK {
				b.Fatalf("%s: %s", response.Status, answer)
			}
			return answer
		})
	})
}

var askForm = &mcp.ElicitRequestFormParams{Message: "Who?", RequestedSchema: mcp.ElicitRequestFormParamsRequestedSchema{
	Properties: map[string]mcp.PrimitiveSchemaDefinition{"name": &mcp.StringSchema{}},
}}

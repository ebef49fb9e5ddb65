package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/doubling"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// The hooks for telemetry cost no allocation: a call has as many without them as with hooks that do
// nothing.
func TestHooksAllocateNothing(t *testing.T) {
	if doubling.Race {
		t.Skip("the race detector drops pooled objects at random")
	}
	through := func(next session.Handler) session.Handler {
		return func(ctx context.Context, req *session.Request) (codec.Encoder, error) { return next(ctx, req) }
	}
	hooks := server.Options{
		Middleware: server.Middleware{All: func(*server.Server) session.Middleware { return through }, Steps: []server.StepMiddleware{}},
		Hooks:      server.Hooks{SessionOpened: func(*session.Session) {}, SessionClosed: func(*session.Session, error) {}},
		Session: session.Options{
			Hooks: session.Hooks{Receiving: []session.Middleware{through}, Rejected: func(string, *jsonrpc.Error) {}},
		},
	}
	var counts [2]float64
	for i, cfg := range []server.Options{{}, hooks} {
		s := server.New("s", "1", &cfg)
		server.AddTool(s, "step", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			return server.Step(ctx, c, "one", func(context.Context) (string, error) { return "done", nil })
		})
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		h := must(s.Handler(nil))
		defer h.Close()
		const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"step"}}`
		header := http.Header{
			"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"step"},
		}
		counts[i] = leastAllocs(func() {
			r, err := http.NewRequest("POST", "http://localhost/mcp", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = header
			w := discardWriter{header: http.Header{}}
			if h.ServeHTTP(&w, r); w.status != 200 {
				t.Fatalf("status %d", w.status)
			}
		})
	}
	if counts[0] != counts[1] {
		t.Errorf("a call has %v allocations without hooks, and %v with hooks that do nothing", counts[0], counts[1])
	}
}

// leastAllocs returns the least number of allocations of f. A garbage collection, which empties pools,
// and other goroutines can only add some.
func leastAllocs(f func()) float64 {
	least := testing.AllocsPerRun(100, f)
	for range 20 {
		least = min(least, testing.AllocsPerRun(100, f))
	}
	return least
}

// Without middleware, a step runs its function itself.
func TestStepWithoutMiddlewareAllocatesNothing(t *testing.T) {
	if n := server.WrapStepAllocs(); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

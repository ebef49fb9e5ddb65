package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// discardWriter is an http.ResponseWriter that keeps only the status.
type discardWriter struct {
	header http.Header
	status int
}

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) WriteHeader(status int)      { w.status = status }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }

// protectedCall returns a function that makes a modern call with a token of 900 bytes. If protected
// is set, the token is verified, and the call needs scopes.
func protectedCall(t testing.TB, protected bool) func() {
	s := server.New("s", "1", nil)
	var o streamable.HandlerOptions
	var options []server.ToolOption
	if protected {
		p, err := auth.NewProtector(auth.Options{
			Resource: protectedURL, Issuers: []string{"https://as.example.com"}, Scopes: []string{"mcp"}, CacheTTL: 1 << 60,
			Verifier: auth.VerifierFunc(func(context.Context, *auth.Credentials) (*auth.Identity, error) {
				return &auth.Identity{Subject: "ann", Audience: []string{protectedURL}, Scopes: []string{"mcp", "write"}}, nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		o.Auth, options = p, append(options, server.RequireScopes("write"))
	}
	server.AddTool(s, "hi", "", sayHi, options...)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	h := must(s.Handler(&o))
	t.Cleanup(func() { h.Close() })
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"hi"}}`
	header := http.Header{
		"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}, "User-Agent": {"bench"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"hi"},
		"Authorization": {"Bearer " + strings.Repeat("x", 900)},
	}
	return func() {
		r, err := http.NewRequest("POST", protectedURL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		w := discardWriter{header: http.Header{}}
		if h.ServeHTTP(&w, r); w.status != 200 {
			t.Fatalf("status %d", w.status)
		}
	}
}

// A verified token costs at most 10 µs, and few allocations, as long as it is cached.
func BenchmarkProtectedCall(b *testing.B) {
	for _, row := range []struct {
		name      string
		protected bool
	}{{"unverified", false}, {"verified", true}} {
		b.Run(row.name, func(b *testing.B) {
			call := protectedCall(b, row.protected)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

func TestVerifiedCallAllocatesLittle(t *testing.T) {
	unverified := testing.AllocsPerRun(200, protectedCall(t, false))
	verified := testing.AllocsPerRun(200, protectedCall(t, true))
	if verified-unverified > 16 { // about 6, with the race detector 11
		t.Errorf("a verified call has %v allocations, an unverified one %v", verified, unverified)
	}
}

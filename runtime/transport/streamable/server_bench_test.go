package streamable_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// BenchmarkModernCall measures the server side of a call over HTTP, by a client that does not decode
// the answer: a modern request, a request of a session, and package http alone.
func BenchmarkModernCall(b *testing.B) {
	handle := func(context.Context, *session.Request) (codec.Encoder, error) {
		return session.Raw(`{"content":[{"type":"text","text":"4 °C, rain later"}]}`), nil
	}
	responder := newResponder(&session.Options{Handler: handle})
	defer responder.Close()
	h := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
		session.Serve(conn, &mcp.InitializeResult{Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}}}, &session.Options{Handler: handle})
	}, streamable.HandlerOptions{Responder: responder})
	defer h.Close()
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"4 °C, rain later"}]}}`)
	})
	for _, way := range []struct {
		name    string
		handler http.Handler
		body    string
		header  func(post func(body string, header http.Header) *http.Response) http.Header
	}{
		{"modern", h, modernCall(1, "weather"), func(func(string, http.Header) *http.Response) http.Header {
			return http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"weather"}}
		}},
		{"session", h, call(1, "weather"), func(post func(string, http.Header) *http.Response) http.Header {
			response := post(initialize, http.Header{})
			response.Body.Close()
			header := http.Header{"Mcp-Session-Id": {response.Header.Get("Mcp-Session-Id")}, "Mcp-Protocol-Version": {"2025-11-25"}}
			post(initialized, header.Clone()).Body.Close()
			return header
		}},
		{"net-http", plain, modernCall(1, "weather"), func(func(string, http.Header) *http.Response) http.Header {
			return http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"weather"}}
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			server := httptest.NewServer(way.handler)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
			defer client.CloseIdleConnections()
			post := func(body string, header http.Header) *http.Response {
				r, err := http.NewRequest("POST", server.URL, strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return nil
				}
				header["Content-Type"], header["Accept"] = []string{"application/json"}, []string{"application/json, text/event-stream"}
				r.Header = header
				response, err := client.Do(r)
				if err != nil {
					b.Error(err)
					return nil
				}
				return response
			}
			header := way.header(post)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					response := post(way.body, header.Clone())
					if response == nil {
						return
					}
					text, err := io.ReadAll(response.Body)
					response.Body.Close()
					if err != nil || response.StatusCode != 200 || !strings.Contains(string(text), "rain later") {
						b.Errorf("answered %d with %s, %v", response.StatusCode, text, err)
						return
					}
				}
			})
		})
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// The messages of one session pass through the gateway in order.
func TestGatewayEditsOnlyLinks(t *testing.T) {
	client, near := inmemory.Pair(inmemory.Options{})
	far, server := inmemory.Pair(inmemory.Options{})
	ended := make(chan error, 1)
	g := gateway{from: "http://in/", to: "https://out/"}
	go func() { ended <- g.run(t.Context(), near, far) }() // ends when the client closes its connection
	for _, tt := range []struct {
		name     string
		from, to transport.Conn
		text     string
		want     string // "" if the message must not change
	}{
		{"a call with unknown members and an exact number", client, server,
			`{"jsonrpc":"2.0", "id":1, "method":"tools/call", "params":{"name":"build", "arguments":{"n":1.00000000000000000001}, "x":null}}`, ""},
		{"a request of the server with the same id", server, client,
			`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, ""},
		{"a result with a link to edit",
			server, client,
			`{"jsonrpc":"2.0","id":1,"trace":7,"result":{
				"content":[
					{"type":"resource_link","name":"log","uri":"http://in/log","size":12,"color":"red","_meta":{"n":1.50}},
					{"type":"hologram","depth":1e400},
					{"type":"resource_link","name":"elsewhere","uri":"http://other/http://in/"},
					{"type":"text","text":"see http://in/log"}],
				"structuredContent":{"total":12345678901234567890.10},
				"mood":["sunny",null]}}`,
			`{"jsonrpc":"2.0","id":1,"trace":7,"result":{
				"content":[
					{"type":"resource_link","name":"log","uri":"https://out/log","size":12,"color":"red","_meta":{"n":1.50}},
					{"type":"hologram","depth":1e400},
					{"type":"resource_link","name":"elsewhere","uri":"http://other/http://in/"},
					{"type":"text","text":"see http://in/log"}],
				"structuredContent":{"total":12345678901234567890.10},
				"mood":["sunny",null]}}`},
		{"an answer that only looks like the result of a tool", client, server,
			`{"jsonrpc":"2.0","id":1,"result":{"roots":[],"content":[{"type":"resource_link","name":"log","uri":"http://in/log"}]}}`, ""},
		{"an unknown method", client, server, `{"jsonrpc":"2.0","id":"a","method":"acme/dance","params":{"steps":[1.0]}}`, ""},
		{"a batch", server, client, `[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.0}}]`, ""},
		{"not a message", server, client, `hello`, ""},
	} {
		if err := tt.from.Write(t.Context(), transport.Message{Text: []byte(tt.text)}); err != nil {
			t.Fatal(err)
		}
		got, err := tt.to.Read()
		if err != nil {
			t.Fatal(err)
		}
		if tt.want == "" {
			if diff := cmp.Diff(tt.text, string(got.Text)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
		} else if diff := cmp.Diff(exact(t, []byte(tt.want)), exact(t, got.Text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	client.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := server.Read(); err == nil {
		t.Error("the server is still connected")
	}
}

// The client closes its output while the server still works on a request.
func TestResponsesArriveAfterClientClosesOutput(t *testing.T) {
	client, near := inmemory.Pair(inmemory.Options{})
	far, server := inmemory.Pair(inmemory.Options{})
	ended := make(chan error, 1)
	go func() { ended <- new(gateway).run(t.Context(), near, far) }() // ends when the server closes
	if err := client.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)}); err != nil {
		t.Fatal(err)
	}
	client.CloseWrite()
	if m, err := server.Read(); err != nil {
		t.Fatalf("got %q, %v", m.Text, err)
	}
	if _, err := server.Read(); err != io.EOF {
		t.Fatalf("got %v, want %v", err, io.EOF)
	}
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	if err := server.Write(t.Context(), transport.Message{Text: []byte(answer)}); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if m, err := client.Read(); err != nil || string(m.Text) != answer {
		t.Errorf("got %q, %v", m.Text, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// behind returns an upstream of a proxy behind a gateway of its own. Wrap wraps the connection
// between the gateway and the server.
func behind(name string, s *server.Server, wrap func(transport.HalfCloser) transport.HalfCloser) proxy.Upstream {
	return proxy.Upstream{Name: name, Prefix: name + "_", Connect: func(context.Context) (transport.Conn, error) {
		front, near := inmemory.Pair(inmemory.Options{})
		far, end := inmemory.Pair(inmemory.Options{})
		if _, err := s.Serve(end); err != nil {
			return nil, err
		}
		g := gateway{from: "http://in/", to: "https://out/"}
		go g.run(context.Background(), near, wrap(far)) // ends when the proxy closes its connection
		return front, nil
	}}
}

func asIs(c transport.HalfCloser) transport.HalfCloser { return c }

// silent is a connection to a server that does not respond while on is set.
type silent struct {
	transport.HalfCloser
	on *atomic.Bool
}

func (s silent) Write(ctx context.Context, m transport.Message) error {
	if s.on.Load() {
		return nil
	}
	return s.HalfCloser.Write(ctx, m)
}

// A server behind one gateway does not respond. Requests to another one, which pass through a
// gateway before the proxy and one after it, take as long as before.
func TestSilentServerDelaysNoOther(t *testing.T) {
	for _, revisions := range [][]mcp.Revision{session.Revisions(), session.ModernRevisions()} {
		t.Run(string(revisions[0]), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const latency = 10 * time.Millisecond
				newServer := func(name string) *server.Server {
					s := server.New(name, "1", nil)
					server.AddTool(s, "x", "", func(context.Context, *server.Call, struct{}) (string, error) {
						time.Sleep(latency)
						return name, nil
					})
					t.Cleanup(func() { s.Close() })
					return s
				}
				var on atomic.Bool
				p, err := proxy.New("hub", "1", &proxy.Options{Upstreams: []proxy.Upstream{
					behind("bad", newServer("bad"), func(c transport.HalfCloser) transport.HalfCloser { return silent{c, &on} }),
					behind("good", newServer("good"), asIs),
				}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { p.Close() })
				front, err := behind("", p.Server, asIs).Connect(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				c, err := client.Connect(t.Context(), front,
					&client.Options{Session: session.Options{Revisions: revisions}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				good := func() {
					t.Helper()
					began := time.Now()
					for range 10 {
						if r, err := c.CallTool(t.Context(), "good_x", nil); err != nil || r.Content[0].(*mcp.TextContent).Text != "good" {
							t.Fatalf("got %v, %v", r, err)
						}
						if list, err := c.With().ListTools(t.Context(), nil); err != nil || len(list.Tools) != 2 {
							t.Fatalf("got %v, %v", list, err)
						}
					}
					if d := time.Since(began); d != 10*latency {
						t.Errorf("ten calls take %v", d)
					}
				}
				good()
				on.Store(true)
				var waiting sync.WaitGroup
				for range 10 {
					waiting.Go(func() {
						if _, err := c.CallTool(t.Context(), "bad_x", nil); !errors.Is(err, session.ErrTimeout) {
							t.Errorf("call of the silent server: %v", err)
						}
					})
				}
				good()
				waiting.Wait()
				good()
			})
		})
	}
}

// exact decodes a JSON value and keeps the text of numbers.
func exact(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The program runs between a client and the example echo.
func TestCommandForwardsToolCall(t *testing.T) {
	dir := t.TempDir()
	if text, err := exec.Command("go", "build", "-o", dir, ".", "../echo").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c, err := client.Command(t.Context(), stdio.Command{Path: filepath.Join(dir, "gateway"), Args: []string{filepath.Join(dir, "echo")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := c.CallTool(t.Context(), "echo", map[string]any{"message": "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Content[0].(*mcp.TextContent).Text; got != `{"echo":"The tool says: hello"}` {
		t.Errorf("tool result: %q", got)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

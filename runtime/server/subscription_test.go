package server_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// Proves RES-08.
func TestURIsAreLimitedInLength(t *testing.T) {
	const limit = 100
	s := newServer(t, server.Config{MaxURI: limit})
	must(s.AddTemplate(mcp.ResourceTemplate{Name: "x", URITemplate: "x://{name}"}, readText))
	c := connect(t, s, side{})
	longest := "x://" + strings.Repeat("a", limit-4)
	for _, method := range []string{"resources/read", "resources/subscribe", "resources/unsubscribe"} {
		if message, code := c.call(method, fmt.Sprintf(`{"uri":%q}`, longest)); code != 0 {
			t.Errorf("%s: a URI of %d bytes is refused: %s", method, limit, message)
		}
		message, code := c.call(method, fmt.Sprintf(`{"uri":%q}`, longest+"a"))
		if want := "invalid URI: 101 bytes long, the limit is 100"; code != jsonrpc.CodeInvalidParams || message != want {
			t.Errorf("%s: got code %d, %q, want %q", method, code, message, want)
		}
	}
	if _, err := s.AddResource(mcp.Resource{Name: "x", URI: longest + "a"}, readText); err == nil {
		t.Error("a resource was added that no client can read")
	}
}

func TestSubscriptionsAreLimitedInBytes(t *testing.T) {
	s := newServer(t, server.Config{MaxSubscriptionBytes: 20})
	must(s.AddTemplate(mcp.ResourceTemplate{Name: "x", URITemplate: "x://{name}"}, readText))
	c := connect(t, s, side{})
	c.expect("resources/subscribe", `{"uri":"x://aaaaaa"}`, `{}`)
	c.expect("resources/subscribe", `{"uri":"x://aaaaaa"}`, `{}`)
	c.expect("resources/subscribe", `{"uri":"x://bbbbbb"}`, `{}`)
	c.refused("resources/subscribe", `{"uri":"x://"}`, jsonrpc.CodeInvalidRequest)
	c.expect("resources/unsubscribe", `{"uri":"x://aaaaaa"}`, `{}`)
	c.expect("resources/subscribe", `{"uri":"x://cccccc"}`, `{}`)
}

func TestSubscriptionsHoldNoMoreThanTheirLimit(t *testing.T) {
	s := newServer(t, server.Config{})
	must(s.AddTemplate(mcp.ResourceTemplate{Name: "x", URITemplate: "x://{name}"}, readText))
	c := connect(t, s, side{})
	before, taken := heap(), 0
	for i := range 3 * server.DefaultMaxSubscriptionBytes / server.DefaultMaxURI {
		uri := fmt.Sprintf("x://%d-", i)
		uri += strings.Repeat("a", server.DefaultMaxURI-len(uri))
		if _, code := c.call("resources/subscribe", fmt.Sprintf(`{"more":%q,"uri":%q}`, uri, uri)); code == 0 {
			taken++
		}
	}
	if want := server.DefaultMaxSubscriptionBytes / server.DefaultMaxURI; taken != want {
		t.Errorf("%d subscriptions were taken, want %d", taken, want)
	}
	if held := int64(heap()) - int64(before); held > 2*server.DefaultMaxSubscriptionBytes {
		t.Errorf("subscriptions hold %d KiB, the limit is %d KiB", held>>10, server.DefaultMaxSubscriptionBytes>>10)
	}
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The author is told of changes to the subscription of a session one at a time, so that what it
// hears last is so.
func TestChangesOfASubscriptionDoNotOverlap(t *testing.T) {
	for _, refused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var told []string
			proceed := make(chan struct{})
			s := newServer(t, server.Config{
				Subscribe: func(context.Context, *server.Call, string) error {
					told = append(told, "subscribe")
					<-proceed
					told = append(told, "subscribed")
					if refused {
						return errors.New("no")
					}
					return nil
				},
				Unsubscribe: func(context.Context, *server.Call, string) { told = append(told, "unsubscribed") },
			})
			must(s.AddResource(mcp.Resource{Name: "a", URI: "x:a"}, readText))
			c := connect(t, s, side{})
			ask := func(method string) chan error {
				done := make(chan error, 1)
				go func() {
					_, err := c.Call(t.Context(), method, session.Raw(`{"uri":"x:a"}`))
					done <- err
				}()
				synctest.Wait()
				return done
			}
			first := ask("resources/subscribe")
			if refused {
				second := ask("resources/subscribe")
				close(proceed)
				if err, again := <-first, <-second; err == nil || again == nil {
					t.Errorf("subscribe: %v, subscribe meanwhile: %v, want both to fail", err, again)
				}
				return
			}
			second := ask("resources/unsubscribe")
			other, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.Call(other, "resources/unsubscribe", session.Raw(`{"uri":"x:a"}`)); err == nil {
				t.Error("a request that is cancelled did not end")
			}
			close(proceed)
			if err, then := <-first, <-second; err != nil || then != nil {
				t.Errorf("subscribe: %v, unsubscribe: %v", err, then)
			}
			if diff := cmp.Diff([]string{"subscribe", "subscribed", "unsubscribed"}, told); diff != "" {
				t.Errorf("the author was told (-want +got):\n%s", diff)
			}
		})
	}
}

// Panics of the author's functions for subscriptions end the request, not the process, also where
// no request is served.
func TestSubscriptionCallbacksMayPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Config{
			Subscribe: func(_ context.Context, _ *server.Call, uri string) error {
				if uri == "x:bad" {
					panic("no")
				}
				return nil
			},
			Unsubscribe: func(context.Context, *server.Call, string) { panic("no") },
		})
		for _, uri := range []string{"x:bad", "x:good"} {
			must(s.AddResource(mcp.Resource{Name: "a", URI: uri}, readText))
		}
		c, _ := connectKept(t, s, side{}, []byte(`{"subscriptions":["x:bad"]}`))
		c.refused("resources/subscribe", `{"uri":"x:bad"}`, jsonrpc.CodeInternalError)
		c.expect("resources/subscribe", `{"uri":"x:good"}`, `{}`)
		c.expect("resources/unsubscribe", `{"uri":"x:good"}`, `{}`)
		c.expect("resources/subscribe", `{"uri":"x:good"}`, `{}`)
		c.Close()
		synctest.Wait()
		if got := s.Sessions(); len(got) != 0 {
			t.Errorf("%d sessions are open", len(got))
		}
	})
}

// A client that lists the tools of a session which is still being opened, or before its handshake
// is complete, hears of the changes since.
func TestChangesWhileASessionOpensAreAnnounced(t *testing.T) {
	for _, opening := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Config{})
			must(server.AddTool(s, mcp.Tool{Name: "a"}, hi))
			here, there := inmemory.Pair(inmemory.Options{})
			talk := func() {
				send := func(text string) {
					if err := here.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
						t.Error(err)
					}
				}
				send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
				here.Read()
				send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
				here.Read()
				must(server.AddTool(s, mcp.Tool{Name: "b"}, hi))
				synctest.Wait()
				send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}
			must(s.Open(func(hello *mcp.InitializeResult, cfg *session.Config) *session.Session {
				opened := session.Serve(there, hello, cfg)
				if opening {
					talk()
				}
				return opened
			}))
			if !opening {
				talk()
			}
			message, err := here.Read()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(message.Text), `"notifications/tools/list_changed"`) {
				t.Errorf("opening %v: got %s", opening, message.Text)
			}
			here.Close()
		})
	}
}

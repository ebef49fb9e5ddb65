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
func TestMaxURI(t *testing.T) {
	const limit = 100
	s := newServer(t, server.Options{Limits: server.Limits{URI: limit}})
	server.AddTemplate(s, "x://{name}", "x", readText)
	c := connect(t, s, clientConfig{})
	longest := "x://" + strings.Repeat("a", limit-4)
	for _, method := range []string{"resources/read", "resources/subscribe", "resources/unsubscribe"} {
		if message, code := c.call(method, fmt.Sprintf(`{"uri":%q}`, longest)); code != 0 {
			t.Errorf("%s: a URI of %d bytes: %s", method, limit, message)
		}
		message, code := c.call(method, fmt.Sprintf(`{"uri":%q}`, longest+"a"))
		if want := "invalid URI: 101 bytes long, the limit is 100"; code != jsonrpc.CodeInvalidParams || message != want {
			t.Errorf("%s: got code %d, %q, want %q", method, code, message, want)
		}
	}
	if err := server.AddResource(s, longest+"a", "x", readText).Err(); err == nil {
		t.Error("a resource was added that no client can read")
	}
}

func TestMaxSubscriptionBytes(t *testing.T) {
	s := newServer(t, server.Options{Limits: server.Limits{SubscriptionBytes: 20}})
	server.AddTemplate(s, "x://{name}", "x", readText)
	c := connect(t, s, clientConfig{})
	c.expect("resources/subscribe", `{"uri":"x://aaaaaa"}`, `{}`)
	c.expect("resources/subscribe", `{"uri":"x://aaaaaa"}`, `{}`)
	c.expect("resources/subscribe", `{"uri":"x://bbbbbb"}`, `{}`)
	c.expectError("resources/subscribe", `{"uri":"x://"}`, jsonrpc.CodeInvalidRequest)
	c.expect("resources/unsubscribe", `{"uri":"x://aaaaaa"}`, `{}`)
	c.expect("resources/subscribe", `{"uri":"x://cccccc"}`, `{}`)
}

func TestSubscriptionsDoNotRetainMessages(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddTemplate(s, "x://{name}", "x", readText)
	c := connect(t, s, clientConfig{})
	before, accepted := heap(), 0
	for i := range 3 * server.DefaultMaxSubscriptionBytes / server.DefaultMaxURI {
		uri := fmt.Sprintf("x://%d-", i)
		uri += strings.Repeat("a", server.DefaultMaxURI-len(uri))
		if _, code := c.call("resources/subscribe", fmt.Sprintf(`{"more":%q,"uri":%q}`, uri, uri)); code == 0 {
			accepted++
		}
	}
	if want := server.DefaultMaxSubscriptionBytes / server.DefaultMaxURI; accepted != want {
		t.Errorf("got %d subscriptions, want %d", accepted, want)
	}
	if retained := int64(heap()) - int64(before); retained > 2*server.DefaultMaxSubscriptionBytes {
		t.Errorf("subscriptions hold %d KiB, the limit is %d KiB", retained>>10, server.DefaultMaxSubscriptionBytes>>10)
	}
}

// heap returns the allocated bytes of the heap after a garbage collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Subscribe and Unsubscribe are called one at a time for a subscription, so that the last call
// reflects the current state.
func TestSubscriptionCallbacksDoNotOverlap(t *testing.T) {
	for _, rejected := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var events []string
			proceed := make(chan struct{})
			s := newServer(t, server.Options{
				Hooks: server.Hooks{
					Subscribe: func(context.Context, *server.Call, string) error {
						events = append(events, "subscribe")
						<-proceed
						events = append(events, "subscribed")
						if rejected {
							return errors.New("no")
						}
						return nil
					},
					Unsubscribe: func(context.Context, *server.Call, string) { events = append(events, "unsubscribed") },
				},
			})
			server.AddResource(s, "x:a", "a", readText)
			c := connect(t, s, clientConfig{})
			call := func(method string) chan error {
				done := make(chan error, 1)
				go func() {
					_, err := c.Call(t.Context(), method, session.Raw(`{"uri":"x:a"}`))
					done <- err
				}()
				synctest.Wait()
				return done
			}
			first := call("resources/subscribe")
			if rejected {
				second := call("resources/subscribe")
				close(proceed)
				if err, secondErr := <-first, <-second; err == nil || secondErr == nil {
					t.Errorf("subscribe: %v, concurrent subscribe: %v, want both to fail", err, secondErr)
				}
				return
			}
			second := call("resources/unsubscribe")
			other, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.Call(other, "resources/unsubscribe", session.Raw(`{"uri":"x:a"}`)); err == nil {
				t.Error("a cancelled request: no error")
			}
			close(proceed)
			if err, secondErr := <-first, <-second; err != nil || secondErr != nil {
				t.Errorf("subscribe: %v, unsubscribe: %v", err, secondErr)
			}
			if diff := cmp.Diff([]string{"subscribe", "subscribed", "unsubscribed"}, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A panic of Subscribe or Unsubscribe does not end the process, whether it is called by a request
// or not.
func TestSubscriptionCallbacksMayPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{
			Hooks: server.Hooks{
				Subscribe: func(_ context.Context, _ *server.Call, uri string) error {
					if uri == "x:bad" {
						panic("no")
					}
					return nil
				},
				Unsubscribe: func(context.Context, *server.Call, string) { panic("no") },
			},
		})
		for _, uri := range []string{"x:bad", "x:good"} {
			server.AddResource(s, uri, "a", readText)
		}
		c, _ := connectWithState(t, s, clientConfig{}, []byte(`{"subscriptions":["x:bad"]}`))
		c.expectError("resources/subscribe", `{"uri":"x:bad"}`, jsonrpc.CodeInternalError)
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

// A client may list tools while the session is being opened, or before its handshake is complete.
// It is notified of later changes.
func TestChangesDuringHandshakeAreAnnounced(t *testing.T) {
	for _, inside := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{})
			server.AddTool(s, "a", "", sayHi)
			clientConn, serverConn := inmemory.Pair(inmemory.Options{})
			handshake := func() {
				send := func(text string) {
					if err := clientConn.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
						t.Error(err)
					}
				}
				send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
				clientConn.Read()
				send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
				clientConn.Read()
				server.AddTool(s, "b", "", sayHi)
				synctest.Wait()
				send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}
			must(server.Open(s, func(result *mcp.InitializeResult, cfg *session.Options) *session.Session {
				sess := session.Serve(serverConn, result, cfg)
				if inside {
					handshake()
				}
				return sess
			}))
			if !inside {
				handshake()
			}
			message, err := clientConn.Read()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(message.Text), `"notifications/tools/list_changed"`) {
				t.Errorf("opening %v: got %s", inside, message.Text)
			}
			clientConn.Close()
		})
	}
}

package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// custom returns a handler of custom methods.
func custom() session.Handler {
	return sessiontest.Methods(map[string]session.Handler{
		"x/nothing": func(context.Context, *session.Request) (codec.Encoder, error) { return nil, nil },
		"x/raw": func(context.Context, *session.Request) (codec.Encoder, error) {
			return session.Raw(`{"z": 1.0,  "a":[1e3]}`), nil
		},
		"x/wait": func(ctx context.Context, _ *session.Request) (codec.Encoder, error) { <-ctx.Done(); return nil, nil },
		"x/list": func(context.Context, *session.Request) (codec.Encoder, error) { return session.Raw(`[]`), nil },
		"x/bytes": func(context.Context, *session.Request) (codec.Encoder, error) {
			return session.Raw("{\"a\":\"\xff\"}"), nil
		},
		"x/error": func(context.Context, *session.Request) (codec.Encoder, error) {
			return nil, errors.New("handler failed")
		},
		"x/own": func(context.Context, *session.Request) (codec.Encoder, error) {
			return nil, fmt.Errorf("because: %w", &jsonrpc.Error{Code: -32099, Message: "own", Data: json.RawMessage(`{"a":1}`)})
		},
		"x/garbled": func(context.Context, *session.Request) (codec.Encoder, error) {
			return nil, &jsonrpc.Error{Code: -32098, Message: "\xff"}
		},
		"x/panic":  func(context.Context, *session.Request) (codec.Encoder, error) { panic("no") },
		"x/params": func(_ context.Context, r *session.Request) (codec.Encoder, error) { return session.Raw(r.Params), nil },
	}, sessiontest.ServerHandler(tools{}, nil))
}

// Proves JSONRPC-03, JSONRPC-05, JSONRPC-06, JSONRPC-07, JSONRPC-08, JSONRPC-09, JSONRPC-11,
// JSONRPC-12, JSONRPC-13, TRANS-01.
func TestRequestsAreAnswered(t *testing.T) {
	for name, script := range map[string]string{
		"ids are returned unchanged": `
			> {"jsonrpc":"2.0","id":"7","method":"ping"}
			< {"jsonrpc":"2.0","id":"7","result":{}}
			> {"jsonrpc":"2.0","id":7,"method":"x/nothing"}
			< {"jsonrpc":"2.0","id":7,"result":{}}
			> {"jsonrpc":"2.0","id":"","method":"x/nothing"}
			< {"jsonrpc":"2.0","id":"","result":{}}
			> {"jsonrpc":"2.0","id":9007199254740991,"method":"x/nothing"}
			< {"jsonrpc":"2.0","id":9007199254740991,"result":{}}`,
		"null is not an id": `
			> {"jsonrpc":"2.0","id":null,"method":"x/nothing"}
			< {"jsonrpc":"2.0","error":{"code":-32600}}`,
		"invalid messages": `
			> {
			< {"jsonrpc":"2.0","error":{"code":-32700}}
			> {"jsonrpc":"2.0","id":1}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32600}}
			> {"jsonrpc":"1.0","id":2,"method":"ping"}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32600}}
			> {"id":3,"method":"ping"}
			< {"jsonrpc":"2.0","id":3,"error":{"code":-32600}}
			> {"jsonrpc":"2.0","id":4,"method":"ping","params":[]}
			< {"jsonrpc":"2.0","id":4,"error":{"code":-32602}}
			> {"jsonrpc":"2.0","id":1.5,"method":"ping"}
			< {"jsonrpc":"2.0","error":{"code":-32600}}
			> [{"jsonrpc":"2.0","id":5,"method":"ping"}]
			< {"jsonrpc":"2.0","error":{"code":-32600}}
			> true
			< {"jsonrpc":"2.0","error":{"code":-32600}}
			This text is not UTF-8.
			> {"jsonrpc":"2.0","method":"ping","params":{"a":"` + "\xe4" + `"}}
			< {"jsonrpc":"2.0","error":{"code":-32700}}
			> {"jsonrpc":"2.0","id":6,"method":"ping"}
			< {"jsonrpc":"2.0","id":6,"result":{}}`,
		"invalid notifications are not answered": `
			> {"jsonrpc":"2.0","method":"notifications/unknown"}
			> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":"much"}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled"}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}
			> {"jsonrpc":"2.0","method":"x/panic"}
			> {"jsonrpc":"2.0","id":1,"method":"ping"}
			< {"jsonrpc":"2.0","id":1,"result":{}}`,
		"invalid answers are not answered": `
			> {"jsonrpc":"2.0","id":77,"result":{}}
			> {"jsonrpc":"2.0","id":77,"result":null}
			> {"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}
			> {"jsonrpc":"2.0","id":1,"method":"ping"}
			< {"jsonrpc":"2.0","id":1,"result":{}}`,
		"unknown methods": `
			> {"jsonrpc":"2.0","id":1,"method":"foo/bar"}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32601}}
			The capability was not declared.
			> {"jsonrpc":"2.0","id":2,"method":"prompts/list"}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32601}}
			Only clients serve this method.
			> {"jsonrpc":"2.0","id":3,"method":"roots/list"}
			< {"jsonrpc":"2.0","id":3,"error":{"code":-32601}}
			The revision does not have the method.
			> {"jsonrpc":"2.0","id":4,"method":"server/discover","params":{}}
			< {"jsonrpc":"2.0","id":4,"error":{"code":-32601}}
			The name of a notification is not a request method.
			> {"jsonrpc":"2.0","id":5,"method":"notifications/initialized"}
			< {"jsonrpc":"2.0","id":5,"error":{"code":-32601}}`,
		"invalid params": `
			> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32602}}
			> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32602}}
			> {"jsonrpc":"2.0","id":3,"method":"tools/call"}
			< {"jsonrpc":"2.0","id":3,"error":{"code":-32602}}`,
		"errors": `
			> {"jsonrpc":"2.0","id":1,"method":"x/error"}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32603}}
			> {"jsonrpc":"2.0","id":2,"method":"x/own"}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32099,"data":{"a":1}}}
			> {"jsonrpc":"2.0","id":3,"method":"x/panic"}
			< {"jsonrpc":"2.0","id":3,"error":{"code":-32603}}
			> {"jsonrpc":"2.0","id":4,"method":"x/garbled"}
			< {"jsonrpc":"2.0","id":4,"error":{"code":-32098}}
			Invalid results.
			> {"jsonrpc":"2.0","id":5,"method":"x/list"}
			< {"jsonrpc":"2.0","id":5,"error":{"code":-32603}}
			> {"jsonrpc":"2.0","id":6,"method":"x/bytes"}
			< {"jsonrpc":"2.0","id":6,"error":{"code":-32603}}
			> {"jsonrpc":"2.0","id":7,"method":"ping"}
			< {"jsonrpc":"2.0","id":7,"result":{}}`,
		"raw params and results": `
			> {"jsonrpc":"2.0","id":1,"method":"x/params","params":{"b":1,"a":{"_meta":null}}}
			< {"jsonrpc":"2.0","id":1,"result":{"b":1,"a":{"_meta":null}}}`,
		"a second initialize is rejected": `
			> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32600}}`,
	} {
		t.Run(name, bubble(func(t *testing.T) {
			_, p := open(t, &session.Options{Handler: custom()})
			p.talk(script)
		}))
	}
}

func TestRawResultsAreSentByteForByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := open(t, &session.Options{Handler: custom()})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"x/raw"}`)
		want := []string{`{"jsonrpc":"2.0","id":1,"result":{"z": 1.0,  "a":[1e3]}}`}
		if diff := cmp.Diff(want, p.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Proves JSONRPC-01, JSONRPC-02, JSONRPC-03, JSONRPC-04, JSONRPC-10.
func TestSentMessagesAreValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, &session.Options{Handler: custom(), Timeouts: session.Timeouts{Request: -1}})
		ctx, cancel := context.WithCancel(t.Context())
		seen := map[jsonrpc.ID]bool{}
		for i := range 200 {
			go s.Call(ctx, "roots/list", nil) // ends with ctx
			if i%3 == 0 {
				go s.Notify(ctx, "notifications/x", &mcp.NotificationParams{}) // ends with ctx
			}
			for _, text := range p.take() {
				m, err := jsonrpc.Parse([]byte(text))
				if err != nil {
					t.Errorf("%s: %v", text, err)
				}
				switch m.Kind {
				case jsonrpc.KindRequest:
					if seen[m.ID] {
						t.Errorf("id %s is used again", m.ID)
					}
					seen[m.ID] = true
					if i%2 == 0 { // an id is not reused even after its answer
						p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, m.ID))
					}
				case jsonrpc.KindNotification:
					if strings.Contains(text, `"id"`) {
						t.Errorf("%s has an id", text)
					}
				default:
					t.Errorf("%s is a %s", text, m.Kind)
				}
			}
		}
		if len(seen) != 200 {
			t.Errorf("%d requests were sent", len(seen))
		}
		cancel()
		synctest.Wait()
	})
}

// Proves JSONRPC-04, JSONRPC-05.
func TestAnswersAreMatchedByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, &session.Options{Handler: custom()})
		got := make(chan string, 1)
		go func() {
			raw, err := s.Call(t.Context(), "roots/list", nil)
			got <- fmt.Sprint(string(raw), err)
		}()
		p.talk(`
			< {"jsonrpc":"2.0","id":1,"method":"roots/list"}
			> {"jsonrpc":"2.0","id":"1","result":{"roots":["a string"]}}
			> {"jsonrpc":"2.0","id":1.5,"result":{"roots":["a fraction"]}}
			> {"jsonrpc":"2.0","id":2,"result":{"roots":["another number"]}}
			The same id in the other direction is another request.
			> {"jsonrpc":"2.0","id":1,"method":"ping"}
			< {"jsonrpc":"2.0","id":1,"result":{}}
			The text of an integer may differ.
			> {"jsonrpc":"2.0","id":1.0,"result":{"roots":[]}}
			> {"jsonrpc":"2.0","id":1,"result":{"roots":["too late"]}}
		`)
		if got := <-got; got != `{"roots":[]}<nil>` {
			t.Errorf("got %s", got)
		}
	})
}

func TestInvalidAnswerFailsItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		got := make(chan error, 1)
		go func() {
			_, err := s.Call(t.Context(), "roots/list", nil)
			got <- err
		}()
		p.take()
		p.send(`{"jsonrpc":"2.0","id":1,"result":[]}`)
		if err := <-got; !errors.Is(err, jsonfault.Result) {
			t.Errorf("got %v, want %v", err, jsonfault.Result)
		}
	})
}

func TestBatchesAreServedOnlyInTheirRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := serve(t, &session.Options{Handler: custom()})
		p.talk(strings.ReplaceAll(handshake, "2025-11-25", "2025-03-26") + `
			> [{"jsonrpc":"2.0","id":1,"method":"ping","params":null},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2,"method":"foo"},7]
			< [{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","error":{"code":-32600}},{"jsonrpc":"2.0","id":2,"error":{"code":-32601}}]
			> [{"jsonrpc":"2.0","method":"notifications/x"}]
			> []
			< {"jsonrpc":"2.0","error":{"code":-32600}}
			> [{"jsonrpc":"2.0","id":3,"method":"initialize"}]
			< [{"jsonrpc":"2.0","id":3,"error":{"code":-32600}}]
			> [{"jsonrpc":"2.0","id":"w","method":"x/wait"},{"jsonrpc":"2.0","id":5,"method":"x/nothing"}]
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}
			< [{"jsonrpc":"2.0","id":5,"result":{}}]
			> [{"jsonrpc":"2.0","id":4,"method":"x/panic"}]
			< [{"jsonrpc":"2.0","id":4,"error":{"code":-32603}}]
			> [{"jsonrpc":"2.0","id":6},{"jsonrpc":"2.0","id":7,"method":"x/nothing"},{"jsonrpc":"2.0","id":8,"result":{}},{"jsonrpc":"2.0","id":9,"method":"x/nothing"}]
			< [{"jsonrpc":"2.0","id":6,"error":{"code":-32600}},{"jsonrpc":"2.0","id":7,"result":{}},{"jsonrpc":"2.0","id":9,"result":{}}]
		`)
	})
}

// A message with an id alone is an answer if a call waits for it, and otherwise a request without a
// method.
func TestMessageWithIDAloneIsRejectedUnlessCallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		p.talk(`
			> {"jsonrpc":"2.0","id":1}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32600}}
		`)
		got := make(chan error, 1)
		go func() {
			_, err := s.Call(t.Context(), "roots/list", nil)
			got <- err
		}()
		p.talk(`
			< {"jsonrpc":"2.0","id":1,"method":"roots/list"}
			> {"jsonrpc":"2.0","id":1,"params":{}}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32600}}
			> {"jsonrpc":"2.0","id":1}
		`)
		if err := <-got; !errors.Is(err, jsonfault.Neither) {
			t.Errorf("got %v, want %v", err, jsonfault.Neither)
		}
	})
}

// Although the handler serves every method, it receives only those whose capability its side has
// declared.
func TestUndeclaredMethodsAreNotServed(t *testing.T) {
	serveAll := func(context.Context, *session.Request) (codec.Encoder, error) {
		return session.Raw(`{"tools":[],"roots":[]}`), nil
	}
	t.Run("server", bubble(func(t *testing.T) {
		_, p := open(t, &session.Options{Handler: serveAll})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
			< {"jsonrpc":"2.0","id":1,"result":{"tools":[],"roots":[]}}
			> {"jsonrpc":"2.0","id":2,"method":"prompts/list"}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32601}}
			> {"jsonrpc":"2.0","id":3,"method":"roots/list"}
			< {"jsonrpc":"2.0","id":3,"error":{"code":-32601}}
			> {"jsonrpc":"2.0","id":4,"method":"server/discover","params":{}}
			< {"jsonrpc":"2.0","id":4,"error":{"code":-32601}}
			> {"jsonrpc":"2.0","id":5,"method":"notifications/initialized"}
			< {"jsonrpc":"2.0","id":5,"error":{"code":-32601}}
		`)
	}))
	t.Run("client", bubble(func(t *testing.T) {
		_, p := connect(t, &session.Options{Handler: serveAll}, mcp.ClientCapabilities{Roots: &mcp.ClientCapabilitiesRoots{}})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"roots/list"}
			< {"jsonrpc":"2.0","id":1,"result":{"tools":[],"roots":[]}}
			> {"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32601}}
			> {"jsonrpc":"2.0","id":3,"method":"tools/list"}
			< {"jsonrpc":"2.0","id":3,"error":{"code":-32601}}
		`)
	}))
}

// Proves JSONRPC-11.
func TestClientSurvivesInvalidMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := connect(t, nil, mcp.ClientCapabilities{})
		p.talk(`
			> Server is starting...
			< {"jsonrpc":"2.0","error":{"code":-32700}}
			> {"level":"info"}
			< {"jsonrpc":"2.0","error":{"code":-32600}}
		`)
		go s.Ping(t.Context()) // ends with the answer
		p.talk(`
			< {"jsonrpc":"2.0","id":2,"method":"ping"}
			> {"jsonrpc":"2.0","id":2,"result":{}}
		`)
	})
}

// countingHandler is a client handler that counts notifications.
type countingHandler struct {
	mcp.UnimplementedClientHandler
	mcp.UnimplementedClientNotificationHandler
	notifications int
}

func (*countingHandler) ListRoots(context.Context, *mcp.RequestParams) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: "file:///a"}}}, nil
}

func (h *countingHandler) ToolListChanged(context.Context, *mcp.NotificationParams) error {
	h.notifications++
	return nil
}

func TestClientHandlerServesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &countingHandler{}
		_, p := connect(t, &session.Options{Handler: sessiontest.ClientHandler(h, h)}, mcp.ClientCapabilities{Roots: &mcp.ClientCapabilitiesRoots{}})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"roots/list"}
			< {"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///a"}]}}
			> {"jsonrpc":"2.0","id":2,"method":"sampling/createMessage"}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32601}}
			> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
			> {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":7}
		`)
		if h.notifications != 1 {
			t.Errorf("the handler received %d notifications, want 1", h.notifications)
		}
	})
	for name, handler := range map[string]session.Handler{
		"no handler": nil, "no methods": sessiontest.Methods(nil, nil), "no client": sessiontest.ClientHandler(nil, nil), "no server": sessiontest.ServerHandler(nil, nil),
	} {
		t.Run(name, bubble(func(t *testing.T) {
			_, p := connect(t, &session.Options{Handler: handler}, mcp.ClientCapabilities{Roots: &mcp.ClientCapabilitiesRoots{}})
			p.talk(`
				> {"jsonrpc":"2.0","id":1,"method":"roots/list"}
				< {"jsonrpc":"2.0","id":1,"error":{"code":-32601}}
				> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
			`)
		}))
	}
}

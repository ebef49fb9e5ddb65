package tap_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/ability"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/tap"
)

func TestMessagesAreLoggedAndRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged, recorded bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		recorder := tap.NewRecorder(&recorded)
		x, y := inmemory.Pair(inmemory.Options{})
		server := session.Serve(y, &mcp.InitializeResult{}, nil)
		client, err := session.Connect(t.Context(), tap.Log(recorder.Wrap(x, "a", mcp.FromClient), log), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		client.Close()
		server.Close()
		for _, want := range []string{
			`level=DEBUG msg="message sent" kind=request method=ping id=2 text=`,
			`level=DEBUG msg="message received" kind=response id=2 text=`,
		} {
			if !strings.Contains(logged.String(), want) {
				t.Errorf("%s is not logged:\n%s", want, &logged)
			}
		}
		for _, want := range []string{
			`"session":"a","from":"client","message":{"jsonrpc":"2.0","id":2,"method":"ping"}}` + "\n",
			`"session":"a","from":"server","message":{"jsonrpc":"2.0","id":2,"result":{}}}` + "\n",
		} {
			if !strings.Contains(recorded.String(), want) {
				t.Errorf("%s is not recorded:\n%s", want, &recorded)
			}
		}
		if err := recorder.Err(); err != nil {
			t.Error(err)
		}
	})
}

// pushing is a connection with optional methods.
type pushing struct {
	transport.Conn
	take func(transport.Message, error)
}

func (p *pushing) Push(of transport.Conn, take func(transport.Message, error)) bool {
	p.take = take
	return of == transport.Conn(p)
}

func (p *pushing) Reopen(context.Context) (uint32, error) { return 7, nil }

func TestObservedConnectionKeepsOptionalMethods(t *testing.T) {
	var recorded bytes.Buffer
	p := &pushing{}
	c := tap.NewRecorder(&recorded).Wrap(p, "", mcp.FromServer)
	if r, ok := transport.As[transport.Reopener](c); !ok {
		t.Error("the connection cannot reopen")
	} else if n, _ := r.Reopen(t.Context()); n != 7 {
		t.Errorf("it reopens session %d", n)
	}
	var got string
	if !c.(ability.Pusher).Push(c, func(m transport.Message, _ error) { got = string(m.Text) }) {
		t.Fatal("the connection does not push")
	}
	p.take(transport.Message{Text: []byte("not JSON")}, nil)
	if got != "not JSON" || !strings.Contains(recorded.String(), `"from":"client","text":"not JSON"}`) {
		t.Errorf("got %q, recorded %s", got, &recorded)
	}
	if c.(ability.Pusher).Push(p, nil) {
		t.Error("messages bypass the connection that wraps the observed one")
	}
}

// Over HTTP, answers and other messages that belong to a request do not pass through Write.
func TestMessagesOfRequestsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recorded bytes.Buffer
		recorder := tap.NewRecorder(&recorded)
		answered := make(chan struct{})
		handler := streamable.NewHandler(func(_ *http.Request, c transport.Conn) {
			session.Serve(recorder.Wrap(c, "a", mcp.FromServer), &mcp.InitializeResult{}, &session.Options{
				Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
					if req.Method == "custom/call" {
						req.Session.Notify(ctx, "custom/event", nil)
						go func() { // ends once the request is answered
							<-answered
							req.Session.Notify(context.WithoutCancel(ctx), "custom/late", nil)
						}()
					}
					return nil, nil
				},
			})
		}, streamable.HandlerOptions{})
		defer handler.Close()
		id := ""
		for _, text := range []string{
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":1,"method":"custom/call"}`,
		} {
			w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
			if id != "" {
				r.Header.Set("Mcp-Session-Id", id)
			}
			handler.ServeHTTP(w, r)
			if id == "" {
				id = w.Header().Get("Mcp-Session-Id")
			}
		}
		close(answered)
		synctest.Wait()
		for _, want := range []string{
			`"from":"server","message":{"jsonrpc":"2.0","id":0,"result":{`,
			`"from":"server","message":{"jsonrpc":"2.0","method":"custom/event"}}`,
			`"from":"server","message":{"jsonrpc":"2.0","id":1,"result":{}}}`,
			`"from":"server","message":{"jsonrpc":"2.0","method":"custom/late"}}`,
		} {
			if n := strings.Count(recorded.String(), want); n != 1 {
				t.Errorf("%s is recorded %d times:\n%s", want, n, &recorded)
			}
		}
	})
}

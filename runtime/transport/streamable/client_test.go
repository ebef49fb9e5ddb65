package streamable_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// check compares what a server has noted.
func check(t *testing.T, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestClientSendsEachMessageAsAPostWithItsHeaders(t *testing.T) {
	// Proves HTTP-06, HTTP-07, HTTP-08, HTTP-12, HTTP-24, HTTP-42, HTTP-46, HTTP-48 and HTTP-49.
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.revision = "2025-06-18"
		pong := make(chan bool)
		f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			if m.Method == "tools/list" {
				f.answer(w, m, `{"tools":[]}`)
				return
			}
			send := stream(w)
			send("data: %s\n\n", `{"jsonrpc":"2.0","id":"ask","method":"ping"}`)
			<-pong
			send("data: %s\n\n", response(m, `{"content":[]}`))
		}
		f.other = func(_ http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.Kind == jsonrpc.KindResponse {
				pong <- true
			}
			return false
		}
		s := f.connect(f.options(), nil)
		peer := mcp.ToServer{Caller: s}
		if _, err := peer.ListTools(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if _, err := peer.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "t"}); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		check(t, "requests", []string{
			"POST tools/list s1 2025-06-18",
			"POST tools/call s1 2025-06-18",
			`POST {"jsonrpc":"2.0","id":"ask","result":{}} s1 2025-06-18`,
			"DELETE s1 2025-06-18",
		}, f.take())
	})
}

func TestClientOpensTheConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		c := f.dial(f.options())
		s, err := session.Connect(t.Context(), c, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "requests", []string{
			"POST initialize",
			"POST notifications/initialized s1 2025-11-25",
			"GET s1 2025-11-25",
		}, f.take())
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		check(t, "requests", []string{"DELETE s1 2025-11-25"}, f.take())
		if err := c.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"x"}`)}); err != transport.ErrClosed {
			t.Errorf("writing to a closed connection: %v", err)
		}
	})
}

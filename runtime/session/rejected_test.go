package session_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/session"
)

func TestRejectedSeesEachRejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		rejected := func(method string, err *jsonrpc.Error) {
			got = append(got, fmt.Sprint(method, " ", err.Code))
			panic("a panic breaks no session")
		}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		release := make(chan bool)
		handler := func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			if !req.IsNotification() {
				<-release
			}
			return nil, nil
		}
		responder := newResponder(&session.Options{Handler: handler, Hooks: session.Hooks{Rejected: rejected}, Logger: logger})
		defer responder.Close()
		_, p := serve(t, with(responder, session.Options{Limits: session.Limits{Requests: 1}, Handler: handler, Hooks: session.Hooks{Rejected: rejected}, Logger: logger}))
		long := strings.Repeat("x", 2000)
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32602}}
			> {"jsonrpc":"2.0","id":2,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32022,"data":{"requested":"1999-01-01","supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]}}}
		`)
		p.talk(handshake)
		p.talk(`
			> {"jsonrpc":"2.0","id":3,"method":"x"}
			> {"jsonrpc":"2.0","id":4,"method":"y"}
			< {"jsonrpc":"2.0","id":4,"error":{"code":-32050}}
			> {"jsonrpc":"2.0","id":5,"method":"z","params":{` + modernMeta + `}}
			< {"jsonrpc":"2.0","id":5,"error":{"code":-31050}}
			> {"jsonrpc":"2.0","id":6,"method":"` + long + `"}
			< {"jsonrpc":"2.0","id":6,"error":{"code":-32601}}
			> {"jsonrpc":"2.0","id":7,"method":"x","params":[]}
			< {"jsonrpc":"2.0","id":7,"error":{"code":-32602}}
			> {"jsonrpc":"2.0","id":8,"method":"roots/list"}
			< {"jsonrpc":"2.0","id":8,"error":{"code":-32601}}
		`)
		release <- true
		p.talk(`< {"jsonrpc":"2.0","id":3,"result":{}}`)
		want := []string{
			"tools/list -32602", "x -32022", "y -32050", "z -31050", long[:1024] + "… -32601", "x -32602", "roots/list -32601",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), "Rejected panicked"); n != len(want) {
			t.Errorf("%d panics were logged, want %d", n, len(want))
		}
	})
}

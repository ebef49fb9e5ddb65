package session_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// FuzzServer sends lines to a server as messages. For any input, the server's output consists of
// valid messages, each request is answered once, only requests and invalid messages are answered,
// and the server keeps serving.
func FuzzServer(f *testing.F) {
	for _, line := range strings.Split(handshake, "\n") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "> "); ok {
			f.Add(text)
		}
	}
	f.Add("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}")
	f.Add("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x/params\",\"params\":{\"_meta\":{\"progressToken\":1}}}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n[]\n7\n\xff")
	f.Add(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	f.Fuzz(func(t *testing.T, lines string) {
		if len(lines) > 10_000 {
			t.Skip("a long conversation takes long and shows nothing new")
		}
		synctest.Test(t, func(t *testing.T) {
			_, p := open(t, &session.Options{Handler: custom()})
			asked := map[jsonrpc.ID]int{}
			unknown := 0
			for _, line := range strings.Split(lines, "\n") {
				m, err := jsonrpc.Parse([]byte(line))
				switch {
				case err != nil && m.Kind == jsonrpc.KindInvalid, m.Kind == jsonrpc.KindRequest:
					if asked[m.ID]++; m.ID.IsZero() {
						unknown++
					}
				}
				p.send(line)
			}
			p.send(`{"jsonrpc":"2.0","id":"the last one","method":"ping"}`)
			asked[jsonrpc.ID{}] = unknown
			alive := false
			for _, text := range p.take() {
				m, err := jsonrpc.Parse([]byte(text))
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				if last, _ := m.ID.Text(); last == "the last one" {
					alive = true
				} else if asked[m.ID]--; asked[m.ID] < 0 {
					t.Errorf("%s answers no request", text)
				}
			}
			if !alive {
				t.Error("the server has stopped responding")
			}
		})
	})
}

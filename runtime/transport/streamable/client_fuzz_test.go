package streamable_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// For any response of a server, the call returns an answer or an error in time, and the session
// continues. ID in the text is replaced with the id of the request.
func FuzzClientAnswer(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":ID,"result":{}}`, `[{"jsonrpc":"2.0","id":ID,"result":{}}]`, `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":""}}`,
		"data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}\n\n", "\ufeffid: 1\rretry: 10\rdata:\r\r", "id: 1\n\ndata: [\n\n",
		"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\n", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}\n\n",
	} {
		for _, status := range []int{200, 202, 400, 404, 503} {
			f.Add(status, "application/json", body)
			f.Add(status, "text/event-stream", body)
		}
	}
	f.Fuzz(func(t *testing.T, status int, contentType, body string) {
		if status < 200 || status > 599 || strings.ContainsAny(contentType, "\r\n\x00") {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			server := newFakeServer(t)
			o := server.options()
			o.Limits.Message = 1 << 12
			s := server.connect(o, nil)
			server.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				if m.Method == "ping" {
					server.answer(w, m, `{}`)
					return
				}
				w.Header().Set("Content-Type", contentType)
				w.WriteHeader(status)
				w.Write([]byte(strings.ReplaceAll(body, "ID", m.ID.String())))
			}
			start := time.Now()
			_, err := s.Call(t.Context(), "tools/list", nil)
			if errors.Is(err, session.ErrTimeout) && status != http.StatusAccepted {
				t.Errorf("the call did not return within %v", time.Since(start))
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("a ping after the response: %v", err)
			}
		})
	})
}

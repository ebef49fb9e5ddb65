package gosdk

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/embedding"
)

// A status that is sent when the response to tasks/result has just ended goes to the GET stream.
func TestStatusAfterResponse(t *testing.T) {
	ended := embedding.NewStream(httptest.NewRecorder())
	ended.Close()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/event-stream")
	get := embedding.NewStream(w)
	get.WriteHeader(http.StatusOK)
	s := new(mcp.ServerSession)
	tasks := &Tasks{streams: map[string]*embedding.Stream{s.ID(): get}}
	r := sessionRequestor{t: tasks, ss: s, reply: &httpReply{t: tasks, ss: s, k: &ticket{stream: ended}}}
	if err := r.Notify(t.Context(), wire.MethodNotificationsTasksStatus, nil); err != nil {
		t.Fatal(err)
	}
	get.Close()
	if body := w.Body.String(); !strings.Contains(body, wire.MethodNotificationsTasksStatus) {
		t.Errorf("the GET stream has %q", body)
	}
}

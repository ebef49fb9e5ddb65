package gosdk

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
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

// written is a connection that records the methods of what is written.
type written struct {
	mcp.Connection
	methods []string
}

func (w *written) Write(_ context.Context, m jsonrpc.Message) error {
	w.methods = append(w.methods, m.(*jsonrpc.Request).Method)
	return nil
}

// The status of a task follows the response that tells the client its id. Other notifications, and
// the status of other tasks when calls begin later, do not wait.
func TestStatusFollowsResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(written)
		c := &connection{Connection: w, level: "debug"}
		responded := c.creating()
		var done sync.WaitGroup
		done.Go(func() { c.Notify(t.Context(), wire.MethodNotificationsTasksStatus, nil) })
		synctest.Wait()
		later := c.creating()
		c.Notify(t.Context(), wire.MethodNotificationsProgress, nil)
		if !slices.Equal(w.methods, []string{wire.MethodNotificationsProgress}) {
			t.Errorf("before the response: %v", w.methods)
		}
		responded()
		done.Wait()
		if len(w.methods) != 2 {
			t.Errorf("after the response: %v", w.methods)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c.Notify(ctx, wire.MethodNotificationsTasksStatus, nil) // as the engine does
		later()
		if len(c.creates) > 0 {
			t.Errorf("%d calls are left", len(c.creates))
		}
	})
}

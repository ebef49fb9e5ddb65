package mcpgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
)

// recordedEvents is an EventStore whose contents a test can see.
type recordedEvents struct {
	server.EventStore
	responses chan struct{} // one for each response to the request 2

	mu       sync.Mutex
	messages []string
}

func newRecordedEvents() *recordedEvents {
	return &recordedEvents{EventStore: server.NewInMemoryEventStore(), responses: make(chan struct{}, 10)}
}

func (r *recordedEvents) StoreEvent(ctx context.Context, session, stream string, message json.RawMessage) (string, error) {
	id, err := r.EventStore.StoreEvent(ctx, session, stream, message)
	r.mu.Lock()
	r.messages = append(r.messages, string(message))
	r.mu.Unlock()
	if strings.Contains(string(message), `"id":2`) {
		r.responses <- struct{}{}
	}
	return id, err
}

// event returns the next event of a stream, or "" at its end.
func event(events *bufio.Scanner) (id, data string) {
	for events.Scan() {
		switch name, value, _ := strings.Cut(events.Text(), ": "); name {
		case "id":
			id = value
		case "data":
			return id, value
		}
	}
	return id, ""
}

// response returns the response in a stream, or "" at its end.
func response(events *bufio.Scanner) string {
	for {
		if _, data := event(events); data == "" || strings.Contains(data, `"id":2`) {
			return data
		}
	}
}

// A client resumes the stream of a tasks/result, before or after the task has ended, in the same or
// in another process.
func TestBrokenStreamIsResumed(t *testing.T) {
	const want = `"text":"done"`
	for _, row := range []struct {
		name      string
		wrapped   bool // the server has an EventStore of Tasks
		first     bool // the client resumes before the task ends
		elsewhere bool
		want      string
	}{
		{"before the end", true, true, false, want},
		{"after the end", true, false, false, want},
		{"in another process", true, false, true, want},
		{"without EventStore of Tasks, in another process", false, false, true, `"message":"internal error: the response is no longer available: repeat the request"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			release, recorded := make(chan struct{}), newRecordedEvents()
			member := func() (*web, *mcpgo.Tasks) {
				s := server.NewMCPServer("s", "1", server.WithToolCapabilities(true))
				s.AddTool(mcp.NewTool("work"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					if _, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{Message: "Ready?", RequestedSchema: map[string]any{"type": "object"}}}); err != nil {
						return nil, err
					}
					<-release
					return mcp.NewToolResultText("done"), nil
				})
				tasks := attach(t, s, embed.Options{Default: &embed.Tool{}})
				var store server.EventStore = recorded
				if row.wrapped {
					store = tasks.EventStore(store)
				}
				return serveWeb(t, s, tasks, server.WithEventStore(store)), tasks
			}
			w, _ := member()
			w.open()
			_, text := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{},"task":{}}}`)
			id := regexp.MustCompile(`"taskId":"([A-Z0-9]+)"`).FindStringSubmatch(text)
			if id == nil {
				t.Fatalf("got %s", text)
			}
			stream := w.send(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"`+id[1]+`"}}`)
			var last string
			var request struct{ ID json.RawMessage }
			for events, data := bufio.NewScanner(stream.Body), ""; !strings.Contains(data, "elicitation/create"); {
				last, data = event(events)
				json.Unmarshal([]byte(data), &request)
			}
			if status, text := w.post(`{"jsonrpc":"2.0","id":` + string(request.ID) + `,"result":{"action":"accept","content":{}}}`); status != http.StatusAccepted {
				t.Fatalf("got status %d: %s", status, text)
			}
			stream.Body.Close()
			resume := func() string {
				at := *w
				if row.elsewhere {
					other, _ := member()
					at.url = other.url
				}
				events := bufio.NewScanner(at.send(http.MethodGet, "", "Last-Event-Id", last).Body)
				if row.first {
					close(release)
				}
				return response(events)
			}
			if !row.first {
				close(release)
				<-recorded.responses
			}
			if got := resume(); !strings.Contains(got, row.want) {
				t.Errorf("got %q", got)
			}
			recorded.mu.Lock()
			defer recorded.mu.Unlock()
			for _, message := range recorded.messages {
				if row.wrapped && strings.Contains(message, "mcpwire-") || strings.Contains(message, want) != (row.wrapped && strings.Contains(message, `"id":2`)) {
					t.Errorf("recorded %s", message)
				}
			}
		})
	}
}

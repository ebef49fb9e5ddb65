package streamable_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

func TestTaskHandlesOutliveTheSessionAtTheServer(t *testing.T) {
	// Proves HTTP-45.
	synctest.Test(t, func(t *testing.T) {
		manager, err := task.New(context.Background(), task.Config{Store: memory.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer manager.Close(context.Background())
		o := newTools()
		o.tasks = receiver.ServerCapabilities(true)
		o.configure = func(cfg *session.Config) { receiver.Attach(cfg, receiver.Options{Manager: manager}) }
		start := func() *served {
			return serveOver(t, streamable.HandlerOptions{}, o, func(l net.Listener) net.Listener { return l })
		}
		first := start()
		var now atomic.Pointer[served] // the server that is running
		now.Store(first)
		cfg := &session.Config{}
		tasks := requestor.Attach(cfg)
		options := streamable.ClientOptions{}
		var renewed atomic.Int32
		options.Renewed = func(json.RawMessage) { renewed.Add(1) }
		options.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return now.Load().http.Transport.RoundTrip(r)
		})}
		c, err := streamable.Dial("http://localhost/mcp", options)
		if err != nil {
			t.Fatal(err)
		}
		s, err := session.Connect(t.Context(), c, &mcp.InitializeRequestParams{}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		h, err := tasks.CallTool(t.Context(), s, &mcp.CallToolRequestParams{Name: "wait", Arguments: []byte(`{"n":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		<-o.started
		type outcome struct {
			result *mcp.CallToolResult
			err    error
		}
		waiting := make(chan outcome)
		go func() {
			result, err := h.Result(t.Context())
			waiting <- outcome{result, err}
		}()
		time.Sleep(time.Second)
		first.stop() // with its sessions
		time.Sleep(time.Minute)
		now.Store(start())
		time.Sleep(time.Minute)
		close(o.release)
		got := <-waiting
		if got.err != nil || got.result.Content[0].(*mcp.TextContent).Text != `{"n":1}` {
			t.Errorf("got %+v, %v", got.result, got.err)
		}
		if calls, sessions := o.calls.Load(), renewed.Load(); calls != 1 || sessions != 1 {
			t.Errorf("the tool ran %d times, %d sessions were renewed", calls, sessions)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("the session: %v", err)
		}
	})
}

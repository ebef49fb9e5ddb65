package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// A handler that ignores its context does not keep the process alive after the client has gone.
func TestServerOfProcessEndsWithoutStuckHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, started := make(chan struct{}), make(chan struct{})
		s := New("s", "1", nil)
		AddTool(s, "stuck", "", func(context.Context, *Call, struct{}) (string, error) {
			close(started)
			<-release
			return "", nil
		})
		here, there := inmemory.Pair(inmemory.Options{})
		ended := make(chan error)
		go func() { ended <- s.serveOnly(t.Context(), func() {}, there) }()
		c, err := session.Connect(t.Context(), here, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		go c.Call(t.Context(), mcp.MethodToolsCall, &mcp.CallToolRequestParams{Name: "stuck"}) // ends with the session
		<-started
		start := time.Now()
		c.Close()
		if err := <-ended; err != nil || time.Since(start) > engine.DefaultGrace+shutdownGrace+time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		close(release)
		s.Close()
	})
}

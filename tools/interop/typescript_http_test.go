package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// overEach runs a test of our client with one of their servers, over standard input and output and over HTTP.
func overEach(t *testing.T, script string, test func(*testing.T, transport.Conn)) {
	t.Run("stdio", func(t *testing.T) {
		p, err := stdio.Start(stdio.Command{Path: "node", Args: []string{filepath.Join("typescript", script)}, Stderr: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		test(t, p)
	})
	t.Run("HTTP", func(t *testing.T) {
		port, _ := serveTypeScript(t, script, "0")
		c, err := streamable.Dial("http://127.0.0.1:"+port, streamable.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		test(t, c)
	})
}

// serveTypeScript starts a server over HTTP, and returns its port and what ends it.
func serveTypeScript(t *testing.T, script, port string) (at string, stop func()) {
	t.Helper()
	cmd := exec.Command("node", filepath.Join("typescript", script), port)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(stop)
	at, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not say where it listens: %v", err)
	}
	return strings.TrimSpace(at), stop
}

// The SDK's transport does not say 404 of a session that it does not know, but 400.
func TestOurClientWithTheirServerThatIsRestarted(t *testing.T) {
	needSDK(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	port, stop := serveTypeScript(t, "server.mjs", "0")
	renewed := make(chan bool, 10)
	var o client.Options
	o.HTTP.RetryDelay = time.Millisecond
	o.HTTP.Renewed = func(json.RawMessage) { renewed <- true }
	c, err := client.Dial(ctx, "http://127.0.0.1:"+port, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echo := func() (string, error) {
		result, err := c.CallTool(ctx, "echo", map[string]int{"n": 1})
		if err != nil {
			return "", err
		}
		return result.Content[0].(*mcp.TextContent).Text, nil
	}
	if got, err := echo(); got != `{"n":1}` {
		t.Fatalf("got %s, %v", got, err)
	}
	stop()
	serveTypeScript(t, "server.mjs", port)
	got, err := echo()
	for err != nil && ctx.Err() == nil { // what goes out on a connection to the first server is lost
		got, err = echo()
	}
	if got != `{"n":1}` {
		t.Errorf("after the restart: %s, %v", got, err)
	}
	select {
	case <-renewed:
	case <-ctx.Done():
		t.Error("no new session was opened")
	}
}

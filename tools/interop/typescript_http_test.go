package interop

import (
	"bufio"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// overEach tests our client with a server of another SDK, over standard input and output and over
// HTTP.
func overEach(t *testing.T, script string, test func(*testing.T, transport.Conn)) {
	t.Run("stdio", func(t *testing.T) {
		p, err := stdio.Start(stdio.Command{Path: "node", Args: []string{filepath.Join("typescript", script)}, Stderr: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		test(t, p)
	})
	t.Run("HTTP", func(t *testing.T) {
		at, _ := serveTypeScript(t, script)
		c, err := streamable.Dial(at, streamable.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		test(t, c)
	})
}

// serveTypeScript starts a server over HTTP. It returns the server's URL and a function that ends
// the server.
func serveTypeScript(t *testing.T, script string) (at string, stop func()) {
	t.Helper()
	cmd := exec.Command("node", filepath.Join("typescript", script), "0") // any free port
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
		t.Fatalf("the server prints no address: %v", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(at), stop
}

// For an unknown session, the SDK's transport responds with status 400 instead of 404.
func TestClientSurvivesRestartOfTypeScriptServer(t *testing.T) {
	needSDK(t)
	ctx := t.Context()
	at, stop := serveTypeScript(t, "server.mjs")
	var target atomic.Pointer[url.URL] // the second server has another port: the first one may be in use by then
	lead := func(at string) {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		target.Store(u)
	}
	lead(at)
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target.Load()) }})
	t.Cleanup(front.Close)
	reopened := make(chan bool, 10)
	var o client.Options
	o.HTTP.Retries.Delay = time.Millisecond
	o.Session.Revisions = session.Revisions()
	o.Session.Hooks.Reopened = func(*mcp.InitializeResult) { reopened <- true }
	c, err := client.Dial(ctx, front.URL, &o)
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
	at, _ = serveTypeScript(t, "server.mjs")
	lead(at)
	got, err := echo()
	for ; err != nil && ctx.Err() == nil; time.Sleep(time.Millisecond) { // a request on a connection to the first server is lost
		got, err = echo()
	}
	if got != `{"n":1}` {
		t.Errorf("after the restart: %s, %v", got, err)
	}
	<-reopened
}

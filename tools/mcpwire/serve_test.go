package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// The everything server works over both transports: the test reads every list, calls a tool, and
// runs one as a task.
func TestServeOverStdioAndHTTP(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "mcpwire")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	options := &client.Options{Info: mcp.Implementation{Name: "test", Version: "1"}, Session: session.Options{Revisions: session.Revisions()}}
	t.Run("stdio", func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "tasks")
		c, err := client.Command(t.Context(), stdio.Command{Path: binary, Args: []string{"serve", "-store", store}}, options)
		if err != nil {
			t.Fatal(err)
		}
		if list := c.Server().Capabilities.Tasks.List; list == nil {
			t.Error("the client on stdio cannot list its tasks")
		}
		useEverything(t, c)
	})
	t.Run("http", func(t *testing.T) {
		url := serveOverHTTP(t, "serve", "-http", "localhost:0")
		c, err := client.Dial(t.Context(), url, options)
		if err != nil {
			t.Fatal(err)
		}
		if list := c.Server().Capabilities.Tasks.List; list != nil {
			t.Error("HTTP clients without a principal can list tasks")
		}
		useEverything(t, c)
	})
	t.Run("terminated", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("there are no signals")
		}
		cmd := exec.Command(binary, "serve", "-http", "localhost:0")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line(t, out)
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server failed: %v", err)
		}
	})
}

// Proves HTTP-04.
func TestListenWithoutHostIsLocal(t *testing.T) {
	for address, want := range map[string]bool{":0": true, "localhost:0": true, "127.0.0.1:0": true, "0.0.0.0:0": false} {
		l, err := listen(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Addr().(*net.TCPAddr).IP.IsLoopback(); got != want {
			t.Errorf("%s: listening at %s", address, l.Addr())
		}
		l.Close()
	}
	u, err := url.Parse(serveOverHTTP(t, "serve", "-http", ":0"))
	if err != nil {
		t.Fatal(err)
	}
	if ip := net.ParseIP(u.Hostname()); !ip.IsLoopback() {
		t.Errorf("serve -http :0 is at %s", u)
	}
}

// The page for operators has its own address and shows the tasks of clients.
func TestServeDebugPage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	errs, errsWriter := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, streams{strings.NewReader(""), w, errsWriter}, []string{"serve", "-http", ":0", "-debug", ":0"})
	}()
	page := strings.TrimPrefix(line(t, errs), "tasks at ")
	c, err := client.Dial(ctx, strings.TrimPrefix(line(t, r), "serving at "), &client.Options{
		Info: mcp.Implementation{Name: "test", Version: "1"}, Session: session.Options{Revisions: session.Revisions()},
	})
	if err != nil {
		t.Fatal(err)
	}
	useEverything(t, c)
	resp, err := http.Get(page + "?status=completed")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "<h2>1 completed</h2>") || !strings.Contains(string(text), "<td>created<td class=\"number\">1\n") {
		t.Errorf("%s, %v:\n%s", resp.Status, err, text)
	}
	if !strings.HasPrefix(page, "http://127.0.0.1:") && !strings.HasPrefix(page, "http://[::1]:") {
		t.Errorf("the page is at %s", page)
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("the server exited with %d", code)
	}
}

// line returns the first line of the output.
func line(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// serveOverHTTP runs the command until the test ends, and returns the URL that it prints.
func serveOverHTTP(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, streams{strings.NewReader(""), w, io.Discard}, args) }()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("the server exited with %d", code)
		}
	})
	return strings.TrimPrefix(line(t, r), "serving at ")
}

func useEverything(t *testing.T, c *client.Client) {
	t.Helper()
	defer c.Close()
	ctx := t.Context()
	tools, resources, templates, prompts := 0, 0, 0, 0
	for _, err := range c.Tools(ctx) {
		tools += one(t, err)
	}
	for _, err := range c.Resources(ctx) {
		resources += one(t, err)
	}
	for _, err := range c.ResourceTemplates(ctx) {
		templates += one(t, err)
	}
	for _, err := range c.Prompts(ctx) {
		prompts += one(t, err)
	}
	if tools < 15 || resources != 4 || templates != 2 || prompts != 6 {
		t.Errorf("%d tools, %d resources, %d templates, %d prompts", tools, resources, templates, prompts)
	}
	result, err := c.CallTool(ctx, "add", map[string]float64{"a": 1, "b": 2})
	if err != nil || string(result.StructuredContent) != `{"sum":3}` {
		t.Errorf("add: %+v, %v", result, err)
	}
	handle, err := c.StartTool(ctx, "countdown", map[string]int{"from": 1})
	if err != nil {
		t.Fatal(err)
	}
	if result, err = handle.Result(ctx); err != nil || result.Content[0].(*mcp.TextContent).Text != "Lift-off!" {
		t.Errorf("countdown: %+v, %v", result, err)
	}
}

func one(t *testing.T, err error) int {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return 1
}

package interop

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// newModernServer returns a server with a tool for each part of revision 2026-07-28 that the tests use.
func newModernServer() *server.Server {
	s := server.New("mcpwire", "1", nil)
	server.AddTool(s, "echo", "", func(_ context.Context, _ *server.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		var name struct {
			Name string `json:"name"`
		}
		if _, err := server.Elicit(ctx, c, "What is your name?", &name); err != nil {
			return "", err
		}
		var color struct {
			Color string `json:"color"`
		}
		_, err := server.Elicit(ctx, c, "Which color?", &color)
		return name.Name + " likes " + color.Color, err
	})
	changing, _ := server.AddTool(s, "changing", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
	server.AddTool(s, "change", "", func(context.Context, *server.Call, struct{}) (string, error) {
		return "changed", changing.Change(func(t *mcp.Tool) { t.Description = new("changed") })
	})
	return s
}

func serveModern(conn transport.Conn) error { return newModernServer().Run(context.Background(), conn) }

// The client asks the user in two rounds and listens to changes.
func TestTypeScript2ClientWithModernServer(t *testing.T) {
	needSDK(t)
	const want = "revision 2026-07-28 mcpwire\necho ä€𝄞\u2028\nask Ann likes blue\nchanged\nclosed local\ndone\n"
	client := func(t *testing.T, args ...string) {
		cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join("typescript", "modern-client.mjs")}, args...)...)
		cmd.Env = append(os.Environ(), childEnv+"=modern")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, string(out)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	t.Run("stdio", func(t *testing.T) {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		client(t, program)
	})
	t.Run("HTTP", func(t *testing.T) {
		s := newModernServer()
		handler := s.Handler(nil)
		web := httptest.NewServer(handler)
		defer web.Close()
		defer s.Close()
		defer handler.Close()
		client(t, web.URL)
	})
}

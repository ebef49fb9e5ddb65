package interop

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// newTaskServer returns a server with tools whose calls are tasks of the Tasks extension, except
// for quick.
func newTaskServer() *server.Server {
	s := server.New("mcpwire", "1", &server.Options{
		Tasks: task.Options{Store: memory.New(), TTL: task.TTL{Default: time.Minute}, Updates: task.Updates{Poll: 50 * time.Millisecond}, Recovery: task.Recovery{ParkAfter: 10 * time.Millisecond}},
	})
	atOnce := func(restartable bool) server.ToolOption {
		return server.Tasks(receiver.Support{Restartable: restartable, After: -1})
	}
	type none = struct{}
	server.AddTool(s, "quick", "", func(context.Context, *server.Call, none) (string, error) { return "quick", nil },
		server.Tasks(receiver.Support{After: time.Minute}))
	server.AddTool(s, "job", "", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		first, err := server.Step(ctx, c, "first", func(context.Context) (string, error) { return "one", nil })
		if err != nil {
			return "", err
		}
		var answer struct {
			Colour string `json:"colour"`
		}
		if _, err := server.Elicit(ctx, c, "which colour?", &answer); err != nil {
			return "", err
		}
		if err := server.Sleep(ctx, c, "nap", func() time.Time { return time.Now().Add(100 * time.Millisecond) }); err != nil {
			return "", err
		}
		return first + " " + answer.Colour, nil
	}, atOnce(true))
	server.AddTool(s, "fail-inside", "", func(context.Context, *server.Call, none) (string, error) { return "", errors.New("no luck") }, atOnce(false))
	server.AddTool(s, "fail", "", func(context.Context, *server.Call, none) (string, error) {
		return "", &jsonrpc.Error{Code: -32050, Message: "broken", Data: []byte(`{"part":7}`)}
	}, atOnce(false))
	server.AddTool(s, "forever", "", func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}, atOnce(false))
	return s
}

// TestTypeScriptClientWithTasksOfExtension runs the official client of the Tasks extension with a
// server of this module.
func TestTypeScriptClientWithTasksOfExtension(t *testing.T) {
	needSDK(t)
	want := strings.Join([]string{
		`quick immediate completed quick false`,
		`asked elicitation which colour?`,
		`job task completed one blue false`,
		`updates [1]`,
		`job completed 60000 50`,
		`fail-inside task completed no luck true`,
		`fail task failed -32050 broken {"part":7}`,
		`forever task cancelled`,
		`unknown -32602`,
		`attached input_required which colour?`,
		`attached completed one red`,
		`done`,
		``,
	}, "\n")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, over := range []string{"HTTP", "stdio"} {
		t.Run(over, func(t *testing.T) {
			target := self
			if over == "HTTP" {
				s := newTaskServer()
				web := httptest.NewServer(must.Get(s.Handler(nil)))
				defer func() {
					web.CloseClientConnections()
					if err := s.Close(); err != nil {
						t.Error(err)
					}
					web.Close()
				}()
				target = web.URL
			}
			cmd := exec.CommandContext(t.Context(), "node", "typescript/extension-client.mjs", target)
			cmd.Env = append(os.Environ(), childEnv+"=extension tasks")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, string(out)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

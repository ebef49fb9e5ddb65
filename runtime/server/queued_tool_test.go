package server_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// A task that waits for room, while its tool is removed or replaced by another version, runs with
// the function that it was created or recovered for.
func TestToolIsReplacedWhileItsTasksWaitForRoom(t *testing.T) {
	for i := range 4 {
		replaced, recovered := i%2 == 1, i/2 == 1
		t.Run(fmt.Sprintf("replaced %v, recovered %v", replaced, recovered), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDurable(t, nil)
				d.s.Close()
				d.options = []server.ToolOption{server.Durable(), server.Version("1")}
				d.cfg.Tasks.Recovery.ParkAfter = -1
				do := func(version string) server.ToolFunc[map[string]any, string] {
					return func(ctx context.Context, c *server.Call, _ map[string]any) (string, error) {
						_, err := server.Step(ctx, c, "s", func(context.Context) (int, error) { return 1, nil })
						if err == nil {
							err = server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(time.Hour) })
						}
						return version, err
					}
				}
				var ids []string
				if recovered {
					d.f = func(ctx context.Context, c *server.Call) (string, error) { return do("1")(ctx, c, nil) }
					d.start()
					ids = []string{d.call(), d.call()}
					time.Sleep(time.Second)
					d.s.Close()
				}
				d.cfg.Tasks.Limits.Running = 1
				var tool *server.Handle[mcp.Tool]
				d.s, d.m = withTasksOf(t, d.cfg, d.cfg.Tasks.Store, func(s *server.Server) {
					tool = server.AddTool(s, "do", "", do("1"), d.options...)
				})
				if !recovered {
					ids = []string{d.call(), d.call()}
				}
				time.Sleep(time.Minute)
				if err := tool.Remove(); err != nil {
					t.Fatal(err)
				}
				if replaced {
					server.AddTool(d.s, "do", "", do("2"), server.Durable(), server.Version("2"))
				}
				time.Sleep(5 * time.Hour)
				for _, id := range ids {
					equal(t, "result", "1", d.result(id))
				}
			})
		})
	}
}

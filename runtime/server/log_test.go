package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

var levels = []mcp.LoggingLevel{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Proves LOG-01, LOG-02, LOG-03, LOG-04, LOG-05.
func TestLogRespectsLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		server.AddTool(s, "log", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			for _, l := range levels {
				if err := c.Log(ctx, l, "", string(l)); err != nil {
					return "", err
				}
			}
			return "", c.Log(ctx, "loud", "", "x")
		})
		c := connect(t, s, clientConfig{})
		if c.Server().Capabilities.Logging == nil {
			t.Error("no capability for logging")
		}
		for i, l := range append([]mcp.LoggingLevel{""}, levels...) {
			from := i - 1
			if l == "" {
				from = 1 // the default is info
			} else {
				c.expect("logging/setLevel", fmt.Sprintf(`{"level":%q}`, l), `{}`)
			}
			before := len(c.notifications("notifications/message"))
			if result, _ := c.call("tools/call", `{"name":"log"}`); text(t, result) != `server: unknown log level "loud"` {
				t.Errorf("an unknown level: %s", result)
			}
			synctest.Wait()
			var want []string
			for _, sent := range levels[from:] {
				want = append(want, fmt.Sprintf(`{"data":%q,"level":%q}`, sent, sent))
			}
			if diff := cmp.Diff(want, c.notifications("notifications/message")[before:]); diff != "" {
				t.Errorf("level %q (-want +got):\n%s", l, diff)
			}
		}
		c.expectError("logging/setLevel", `{"level":"verbose"}`, jsonrpc.CodeInvalidParams)
		c.expectError("logging/setLevel", `{"level":"INFO"}`, jsonrpc.CodeInvalidParams)
	})
}

// A task follows the level of the session over which its messages are sent. It may have been created
// over another one.
func TestTaskLogsAtLevelOfCurrentSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan bool)
		s, _ := withTasks(t, memory.New(), func(s *server.Server) {
			server.AddTool(s, "log", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				for range step {
					c.Logger("").Debug("debug")
					c.Log(ctx, "warning", "", "warning")
				}
				return "", nil
			}, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired}))
		})
		first := connect(t, s, clientConfig{})
		created, _ := first.call("tools/call", `{"name":"log","task":{}}`)
		step <- true
		synctest.Wait() // the messages of the first step are logged
		first.Close()
		second := connect(t, s, clientConfig{})
		for level, want := range map[string]int{"error": 0, "info": 1, "debug": 2} {
			second.expect("logging/setLevel", `{"level":"`+level+`"}`, `{}`)
			second.call("tasks/get", `{"taskId":"`+taskID(t, created)+`"}`)
			before := len(second.notifications("notifications/message"))
			step <- true
			synctest.Wait()
			if got := second.notifications("notifications/message")[before:]; len(got) != want {
				t.Errorf("level %s: %q", level, got)
			}
		}
		close(step)
	})
}

// Proves LOG-01.
func TestLogWithoutDeclaredLogging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{Features: server.Features{Capabilities: func(c *mcp.ServerCapabilities) { c.Logging = nil }}})
		server.AddTool(s, "log", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			return "fine", c.Log(ctx, "error", "", "x")
		})
		c := connect(t, s, clientConfig{})
		c.expect("tools/call", `{"name":"log"}`, `{"content":[{"type":"text","text":"fine"}]}`)
		synctest.Wait()
		if got := c.notifications("notifications/message"); got != nil {
			t.Errorf("got messages %v", got)
		}
	})
}

// Proves LOG-04.
func TestLoggerSendsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		server.AddTool(s, "log", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			l := c.Logger("db").With("table", "users").WithGroup("query")
			l.DebugContext(ctx, "hidden")
			l.WarnContext(ctx, "slow", "took", 2*time.Second, slog.Group("rows", "read", 7), "err", errors.New("lock"))
			l.Log(ctx, slog.LevelError+4, "gone")
			return "", nil
		})
		c := connect(t, s, clientConfig{})
		c.call("tools/call", `{"name":"log"}`)
		synctest.Wait()
		want := []string{
			`{"data":{"msg":"slow","query":{"err":"lock","rows":{"read":7},"took":"2s"},"table":"users"},"level":"warning","logger":"db"}`,
			`{"data":{"msg":"gone","table":"users"},"level":"critical","logger":"db"}`,
		}
		if diff := cmp.Diff(want, c.notifications("notifications/message")); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
	})
}

// A record is sent even if a value has no JSON form.
func TestLoggerSendsAllKindsOfValues(t *testing.T) {
	type point struct{ X, Y int }
	cycle := []any{1}
	cycle[0] = cycle
	for name, tt := range map[string]struct {
		value any
		want  string
	}{
		"cycle":              {cycle, strings.Repeat("[", 10) + `"[]interface {}"` + strings.Repeat("]", 10)},
		"not a number":       {math.NaN(), `"NaN"`},
		"invalid UTF-8":      {"a\xff", `"a\uFFFD"`},
		"nested errors":      {map[string]any{"e": errors.New("boom")}, `{"e":"boom"}`},
		"list of errors":     {[]error{errors.New("boom")}, `["boom"]`},
		"nil error":          {(*levelFault)(nil), `"*server_test.levelFault without a text: panic: no"`},
		"map with a channel": {map[string]any{"c": (chan int)(nil), "e": errors.New("boom")}, `"map[c:<nil> e:boom]"`},
		"marshaler":          {badMarshaler{}, `"{}"`},
		"struct":             {point{1, 2}, `{"X":1,"Y":2}`},
		"channel in list":    {[]chan int{nil}, `"[<nil>]"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{})
			server.AddTool(s, "log", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				c.Logger("").InfoContext(ctx, "m", "v", tt.value, "msg", "other")
				return "", nil
			})
			c := connect(t, s, clientConfig{})
			c.call("tools/call", `{"name":"log"}`)
			synctest.Wait()
			got := c.notifications("notifications/message")
			if len(got) != 1 {
				t.Fatalf("%s: %d messages", name, len(got))
			}
			equalJSON(t, name, `{"data":{"fields.msg":"other","msg":"m","v":`+tt.want+`},"level":"info"}`, got[0])
		})
	}
}

type levelFault struct{}

func (*levelFault) Error() string { panic("no") }

type badMarshaler struct{}

func (badMarshaler) MarshalJSON() ([]byte, error) { panic("no") }

// Proves LOG-06.
func TestLogRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{Limits: server.Limits{Logs: 5}})
		server.AddTool(s, "log", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			for range 1000 {
				c.Log(ctx, "error", "", "x")
			}
			return "", nil
		})
		c := connect(t, s, clientConfig{})
		for range 2 {
			c.call("tools/call", `{"name":"log"}`)
			time.Sleep(time.Second)
		}
		if got := len(c.notifications("notifications/message")); got != 15 {
			t.Errorf("got %d messages, want 10 at once and 5 a second later", got)
		}
	})
}

package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// The functions of DefineToolFor run in order, on a copy, and cannot change the name.
func TestToolIsDescribedForItsCaller(t *testing.T) {
	s := newServer(t, server.Options{})
	describe := func(c *server.Call, def *mcp.Tool) {
		def.Name, def.Title, def.Description = "changed", new("for "+c.ClientInfo().Name), new("Own.")
	}
	second := func(_ *server.Call, def *mcp.Tool) { def.Description = new(*def.Description + " Second.") }
	server.AddTool(s, "a", "Shared.", sayHi, server.ToolOptions(server.DefineToolFor(describe), server.DefineToolFor(second)))
	server.AddTool(s, "b", "Shared.", sayHi)
	c := connect(t, s, clientConfig{})
	for range 2 {
		c.expect("tools/list", "", `{"tools":[
			{"name":"a","title":"for client","description":"Own. Second.","inputSchema":{"type":"object","additionalProperties":false}},
			{"name":"b","description":"Shared.","inputSchema":{"type":"object","additionalProperties":false}}]}`)
	}
}

func TestExtensionsAreDeclared(t *testing.T) {
	s := newServer(t, server.Options{})
	for _, settings := range []string{`{"old":true}`, `{"a":1}`} {
		if err := s.Extend(server.Extension{ID: "com.example/a", Settings: json.RawMessage(settings)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Extend(server.Extension{ID: "com.example/b"}); err != nil {
		t.Fatal(err)
	}
	c := connect(t, s, clientConfig{})
	if got, want := string(c.Server().Capabilities.Extensions), `{"com.example/a":{"a":1},"com.example/b":{}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestExtendRejectsInvalidExtensions(t *testing.T) {
	for _, test := range []struct{ id, settings, want string }{
		{"", `{}`, `server: extension "": want an identifier with a prefix, such as "com.example/name"`},
		{"ui", `{}`, `server: extension "ui": want an identifier with a prefix, such as "com.example/name"`},
		{"com.example/", `{}`, `server: extension "com.example/": want an identifier with a prefix, such as "com.example/name"`},
		{"a/\xff", `{}`, `server: extension "a/\xff": want an identifier with a prefix, such as "com.example/name"`},
		{"1a/x", `{}`, `server: extension "1a/x": want an identifier with a prefix, such as "com.example/name"`},
		{"a b/x", `{}`, `server: extension "a b/x": want an identifier with a prefix, such as "com.example/name"`},
		{"a/b", `[]`, `server: extension "a/b": settings are not a JSON object`},
		{"a/b", `null`, `server: extension "a/b": settings are not a JSON object`},
		{"a/b", `{`, `server: extension "a/b": settings are not a JSON object`},
	} {
		s := server.New("a", "1", nil)
		err := s.Extend(server.Extension{ID: test.id, Settings: json.RawMessage(test.settings)})
		if err == nil || err.Error() != test.want || !errors.Is(s.Err(), err) {
			t.Errorf("Extend(%q, %s) returned %v, want %s; Err returned %v", test.id, test.settings, err, test.want, s.Err())
		}
	}
}

// Proves XTASK-61.
func TestNamesOfTasksAreReserved(t *testing.T) {
	serve := func(context.Context, *session.Request) (codec.Encoder, error) { return nil, nil }
	for _, tt := range []struct{ method, want string }{
		{"tasks/start", `server: method "tasks/start": the name is reserved for tasks`},
		{"notifications/tasks/started", `server: method "notifications/tasks/started": the name is reserved for tasks`},
		{"tasks/list", ""},
		{"tasks/update", ""},
		{"tasks", ""},
		{"mytasks/start", ""},
	} {
		s := server.New("s", "1", &server.Options{Features: server.Features{Methods: map[string]session.Handler{tt.method: serve}}})
		defer s.Close()
		got := ""
		if err := s.Err(); err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: got %q, want %q", tt.method, got, tt.want)
		}
	}
}

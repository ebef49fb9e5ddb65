package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

func sayHi(context.Context, *server.Call, struct{}) (string, error) { return "hi", nil }

// toolNames returns the names of all tools, and the number of pages.
func (c *testClient) toolNames() (names []string, pages int) {
	c.t.Helper()
	var params mcp.PaginatedRequestParams
	for {
		page := must(mcp.ToServer{Caller: c}.ListTools(c.t.Context(), &params))
		pages++
		for _, tool := range page.Tools {
			names = append(names, tool.Name)
		}
		if params.Cursor = page.NextCursor; page.NextCursor == nil {
			return names, pages
		}
	}
}

// Proves TOOL-04, RES-04, PROMPT-04, SDK-12.
func TestFeatureChangesAreAnnounced(t *testing.T) {
	get := func(context.Context, *server.Call, map[string]string) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{}, nil
	}
	all := func(c *mcp.ServerCapabilities) {
		c.Tools = &mcp.ServerCapabilitiesTools{ListChanged: new(true)}
		c.Prompts = &mcp.ServerCapabilitiesPrompts{ListChanged: new(true)}
		c.Resources = &mcp.ServerCapabilitiesResources{ListChanged: new(true)}
	}
	type steps struct {
		add                             func(s *server.Server) (change, disable, enable, remove func() error)
		method, list, none, one, second string
	}
	for _, tt := range []steps{{
		func(s *server.Server) (_, _, _, _ func() error) {
			h := server.AddTool(s, "x", "", sayHi)
			return func() error { return h.Change(func(d *mcp.Tool) { d.Title = new("T") }) }, h.Disable, h.Enable, h.Remove
		},
		"notifications/tools/list_changed", "tools/list", `{"tools":[]}`,
		`{"tools":[{"name":"x","inputSchema":{"type":"object","additionalProperties":false}}]}`,
		`{"tools":[{"name":"x","title":"T","inputSchema":{"type":"object","additionalProperties":false}}]}`,
	}, {
		func(s *server.Server) (_, _, _, _ func() error) {
			h := server.AddPrompt(s, "x", "", get)
			return func() error { return h.Change(func(d *mcp.Prompt) { d.Title = new("T") }) }, h.Disable, h.Enable, h.Remove
		},
		"notifications/prompts/list_changed", "prompts/list", `{"prompts":[]}`, `{"prompts":[{"name":"x"}]}`, `{"prompts":[{"name":"x","title":"T"}]}`,
	}, {
		func(s *server.Server) (_, _, _, _ func() error) {
			h := server.AddResource(s, "x://", "x", readText)
			return func() error { return h.Change(func(d *mcp.Resource) { d.Title = new("T") }) }, h.Disable, h.Enable, h.Remove
		},
		"notifications/resources/list_changed", "resources/list", `{"resources":[]}`, `{"resources":[{"name":"x","uri":"x://"}]}`, `{"resources":[{"name":"x","uri":"x://","title":"T"}]}`,
	}, {
		func(s *server.Server) (_, _, _, _ func() error) {
			h := server.AddTemplate(s, "x://{y}", "x", readText)
			return func() error { return h.Change(func(d *mcp.ResourceTemplate) { d.Title = new("T") }) }, h.Disable, h.Enable, h.Remove
		},
		"notifications/resources/list_changed", "resources/templates/list", `{"resourceTemplates":[]}`,
		`{"resourceTemplates":[{"name":"x","uriTemplate":"x://{y}"}]}`, `{"resourceTemplates":[{"name":"x","uriTemplate":"x://{y}","title":"T"}]}`,
	}} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{Features: server.Features{Capabilities: all}})
			c := connect(t, s, clientConfig{})
			c.expect(tt.list, "", tt.none)
			total := 0
			step := func(what string, err error, list string, sent int) {
				t.Helper()
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				synctest.Wait()
				total += sent
				if got := len(c.notifications(tt.method)); got != total {
					t.Errorf("%s: %d notifications so far, want %d", what, got, total)
				}
				c.expect(tt.list, "", list)
			}
			change, disable, enable, remove := tt.add(s)
			step("add", nil, tt.one, 1)
			step("change", change(), tt.second, 1)
			step("disable", disable(), tt.none, 1)
			step("disable again", disable(), tt.none, 0)
			step("change while disabled", change(), tt.none, 0)
			step("enable", enable(), tt.second, 1)
			step("enable again", enable(), tt.second, 0)
			step("remove", remove(), tt.none, 1)
			if err := change(); !errors.Is(err, server.ErrRemoved) {
				t.Errorf("change after removal: got %v, want ErrRemoved", err)
			}
		})
	}
}

func TestInvalidChangeKeepsFeature(t *testing.T) {
	s := newServer(t, server.Options{})
	h := server.AddTool(s, "x", "", sayHi)
	if err := h.Change(func(d *mcp.Tool) { d.Name = "y" }); err == nil {
		t.Error("the name was changed")
	}
	if err := h.Change(func(d *mcp.Tool) { d.InputSchema.Properties = []byte(`{"a":{"type":"objekt"}}`) }); err == nil {
		t.Error("an invalid schema: no error")
	}
	if err := h.Disable(); err != nil {
		t.Fatal(err)
	}
	c := connect(t, s, clientConfig{})
	c.expectError("tools/call", `{"name":"x"}`, jsonrpc.CodeInvalidParams)
	if err := h.Enable(); err != nil {
		t.Fatal(err)
	}
	c.expect("tools/call", `{"name":"x"}`, `{"content":[{"type":"text","text":"hi"}]}`)
}

// Proves SDK-13.
func TestDebounceMergesNotices(t *testing.T) {
	for _, tt := range []struct {
		debounce time.Duration
		want     int
	}{{0, 10}, {time.Second, 1}} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{Features: server.Features{Debounce: tt.debounce}})
			server.AddTool(s, "hi", "", sayHi)
			server.AddResource(s, "test://a", "a", readText)
			time.Sleep(time.Minute)
			c := connect(t, s, clientConfig{})
			c.expect("resources/subscribe", `{"uri":"test://a"}`, `{}`)
			for i := range 10 {
				server.AddTool(s, fmt.Sprint(i), "", sayHi)
				s.ResourceUpdated("test://a")
			}
			time.Sleep(time.Minute)
			if got := len(c.notifications("notifications/tools/list_changed")); got != tt.want {
				t.Errorf("debounce %v: %d notifications, want %d", tt.debounce, got, tt.want)
			}
			if got := len(c.notifications("notifications/resources/updated")); got != 10 {
				t.Errorf("debounce %v: %d updates, want 10", tt.debounce, got)
			}
			s.ListChanged(mcp.MethodNotificationsToolsListChanged)
			s.ListChanged(mcp.MethodNotificationsPromptsListChanged) // prompts were not declared
			s.ListChanged(mcp.MethodNotificationsResourcesListChanged)
			time.Sleep(time.Minute)
			if got := len(c.notifications("notifications/tools/list_changed")); got != tt.want+1 {
				t.Errorf("debounce %v: %d notifications, want one more", tt.debounce, got)
			}
			if got := c.notifications("notifications/prompts/list_changed"); got != nil {
				t.Errorf("notices of prompts: %v", got)
			}
		})
	}
}

// Proves PAGE-01, PAGE-05.
func TestListsArePaged(t *testing.T) {
	s := newServer(t, server.Options{Features: server.Features{PageSize: 3}})
	var want []string
	for i := range 9 {
		want = append(want, fmt.Sprint("tool", i))
		server.AddTool(s, want[i], "", sayHi)
	}
	c := connect(t, s, clientConfig{})
	if names, pages := c.toolNames(); !slices.Equal(names, want) || pages != 3 {
		t.Errorf("got %v on %d pages, want %v on 3", names, pages, want)
	}
	first := must(mcp.ToServer{Caller: c}.ListTools(t.Context(), nil))
	server.AddTool(s, "early", "", sayHi)
	server.AddTool(s, "tool21", "", sayHi)
	second := must(mcp.ToServer{Caller: c}.ListTools(t.Context(), &mcp.PaginatedRequestParams{Cursor: first.NextCursor}))
	if got := []string{second.Tools[0].Name, second.Tools[1].Name, second.Tools[2].Name}; !slices.Equal(got, []string{"tool21", "tool3", "tool4"}) {
		t.Errorf("the second page after a change: %v", got)
	}
	server.AddPrompt(s, "p", "", func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil })
	server.AddResource(s, "r://", "r", readText)
	again := connect(t, s, clientConfig{})
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		for _, cursor := range []string{"x", "AAAA", "====", *first.NextCursor + "A", "%"} {
			again.expectError(method, fmt.Sprintf(`{"cursor":%q}`, cursor), jsonrpc.CodeInvalidParams)
		}
		if method != "tools/list" {
			again.expectError(method, fmt.Sprintf(`{"cursor":%q}`, *first.NextCursor), jsonrpc.CodeInvalidParams)
		}
	}
}

// Only the last page of a list has no cursor.
//
// Proves PAGE-01.
func TestAllListsArePaged(t *testing.T) {
	s := newServer(t, server.Options{Features: server.Features{PageSize: 2}})
	get := func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }
	for _, name := range []string{"a", "b", "c", "d"} {
		server.AddTool(s, name, "", sayHi)
		server.AddPrompt(s, name, "", get)
		server.AddResource(s, "r://"+name, name, readText)
		server.AddTemplate(s, "t://"+name+"/{x}", name, readText)
	}
	c := connect(t, s, clientConfig{})
	for method, member := range map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"} {
		params := `{}`
		for _, want := range [][]string{{"a", "b"}, {"c", "d"}} {
			text, _ := c.call(method, params)
			var page map[string]json.RawMessage
			var items []struct{ Name string }
			if err := errors.Join(json.Unmarshal([]byte(text), &page), json.Unmarshal(page[member], &items)); err != nil {
				t.Fatalf("%s: %v in %s", method, err, text)
			}
			var got []string
			for _, item := range items {
				got = append(got, item.Name)
			}
			next, more := page["nextCursor"]
			if !slices.Equal(got, want) || more != (want[0] == "a") {
				t.Errorf("%s %s: got %s, want %v", method, params, text, want)
			}
			params = fmt.Sprintf(`{"cursor":%s}`, next)
		}
	}
}

// Cursors work for names with any characters.
func TestPagesOfUnusualNames(t *testing.T) {
	s := newServer(t, server.Options{Features: server.Features{PageSize: 1}})
	want := []string{"a", "a\x00b", "a\x00b\x00", "\u00e9", "\u65e5"}
	for _, name := range want {
		server.AddPrompt(s, name, "", func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil })
	}
	c := connect(t, s, clientConfig{})
	var got []string
	var params mcp.PaginatedRequestParams
	for range 2 * len(want) {
		page := must(mcp.ToServer{Caller: c}.ListPrompts(t.Context(), &params))
		for _, p := range page.Prompts {
			got = append(got, p.Name)
		}
		if params.Cursor = page.NextCursor; page.NextCursor == nil {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prompts (-want +got):\n%s", diff)
	}
}

// A client cannot forge the cursor of a list callback. Servers with the same key accept each
// other's cursors.
func TestCursorsOfListCallbacksCannotBeForged(t *testing.T) {
	var cursors []string
	open := func(key string) *testClient {
		s := newServer(t, server.Options{Shared: server.Shared{CursorKey: []byte(key)}})
		server.AddTemplate(s, "x://{n}", "x", readText, server.ListFunc(func(_ context.Context, _ *server.Call, cursor string) ([]mcp.Resource, string, error) {
			cursors = append(cursors, cursor)
			return []mcp.Resource{{Name: "r", URI: "x://1"}}, "next", nil
		}))
		return connect(t, s, clientConfig{})
	}
	cursorOf := func(c *testClient) string {
		return *must(mcp.ToServer{Caller: c}.ListResources(t.Context(), nil)).NextCursor
	}
	c, other, same := open(""), open(""), open("k")
	cursor := cursorOf(c)
	other.expectError("resources/list", fmt.Sprintf(`{"cursor":%q}`, cursor), jsonrpc.CodeInvalidParams)
	bytes := must(base64.RawURLEncoding.DecodeString(cursor))
	forged := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(bytes), "next", "evil", 1)))
	c.expectError("resources/list", fmt.Sprintf(`{"cursor":%q}`, forged), jsonrpc.CodeInvalidParams)
	if _, code := c.call("resources/list", fmt.Sprintf(`{"cursor":%q}`, cursor)); code != 0 {
		t.Errorf("own cursor: got code %d", code)
	}
	if _, code := same.call("resources/list", fmt.Sprintf(`{"cursor":%q}`, cursorOf(open("k")))); code != 0 {
		t.Errorf("cursor of a server with the same key: got code %d", code)
	}
	if diff := cmp.Diff([]string{"", "next", "", "next"}, cursors); diff != "" {
		t.Errorf("cursors of the callback (-want +got):\n%s", diff)
	}
}

func TestFeaturesChangeFromManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		server.AddTool(s, "hi", "", sayHi)
		c := connect(t, s, clientConfig{})
		for i := range 20 {
			go func() {
				h := server.AddTool(s, fmt.Sprint(i), "", sayHi)
				for range 20 {
					h.Disable()
					h.Change(func(d *mcp.Tool) { d.Title = new("x") })
					h.Enable()
				}
				if i%2 == 0 {
					h.Remove()
				}
			}()
		}
		for range 50 {
			c.toolNames()
		}
		synctest.Wait()
		names, _ := c.toolNames()
		want := []string{"1", "11", "13", "15", "17", "19", "3", "5", "7", "9", "hi"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
	})
}

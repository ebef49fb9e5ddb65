package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// names returns the names of all items of a list.
func names[T any](t *testing.T, list iter.Seq2[*T, error], name func(*T) string) (all []string) {
	t.Helper()
	for item, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name(item))
	}
	return all
}

func toolName(x *mcp.Tool) string { return x.Name }

// paged returns an answer for a list of three pages. One page is empty, and the cursors are
// unusual.
func paged(member, item string) func(string) (string, error) {
	return func(params string) (string, error) {
		var p struct{ Cursor *string }
		json.Unmarshal([]byte(params), &p)
		items := func(names ...string) string {
			var list []string
			for _, n := range names {
				list = append(list, strings.ReplaceAll(item, "NAME", n))
			}
			return fmt.Sprintf("%q:[%s]", member, strings.Join(list, ","))
		}
		switch {
		case p.Cursor == nil:
			return `{` + items("a", "b", "c") + `,"nextCursor":" \u00e4%2F\n\""}`, nil
		case *p.Cursor == " ä%2F\n\"":
			return `{` + items() + `,"nextCursor":""}`, nil
		case *p.Cursor == "":
			return `{` + items("d") + `}`, nil
		}
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "bad cursor"}
	}
}

// Proves PAGE-02, PAGE-03, PAGE-04.
func TestListsAreFetchedPageByPage(t *testing.T) {
	c, s := connect(t, nil, map[string]func(string) (string, error){
		"tools/list":               paged("tools", `{"name":"NAME","inputSchema":{"type":"object"}}`),
		"prompts/list":             paged("prompts", `{"name":"NAME"}`),
		"resources/list":           paged("resources", `{"name":"NAME","uri":"x:NAME"}`),
		"resources/templates/list": paged("resourceTemplates", `{"name":"NAME","uriTemplate":"x:{y}"}`),
	})
	ctx := t.Context()
	for range 2 { // the second iteration uses the cache
		for list, got := range map[string][]string{
			"tools":     names(t, c.Tools(ctx), toolName),
			"prompts":   names(t, c.Prompts(ctx), func(x *mcp.Prompt) string { return x.Name }),
			"resources": names(t, c.Resources(ctx), func(x *mcp.Resource) string { return x.Name }),
			"templates": names(t, c.ResourceTemplates(ctx), func(x *mcp.ResourceTemplate) string { return x.Name }),
		} {
			if diff := cmp.Diff([]string{"a", "b", "c", "d"}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", list, diff)
			}
		}
	}
	s.mu.Lock()
	if len(s.got) != 12 {
		t.Errorf("messages received by the server: %q", s.got)
	}
	s.got = nil
	s.mu.Unlock()
}

func TestListStopsFetchingWhenIterationStops(t *testing.T) {
	c, s := connect(t, nil, map[string]func(string) (string, error){
		"tools/list": paged("tools", `{"name":"NAME","inputSchema":{"type":"object"}}`),
	})
	for range 2 { // an incomplete list is not cached
		for tool, err := range c.Tools(t.Context()) {
			if err != nil || tool.Name != "a" {
				t.Errorf("got %v, %v", tool, err)
			}
			break
		}
		s.took(`tools/list {}`)
	}
}

func TestErrorEndsList(t *testing.T) {
	c, s := connect(t, nil, nil)
	s.answers = map[string]func(string) (string, error){"tools/list": func(params string) (string, error) {
		if params == `{}` {
			return `{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"x"}`, nil
		}
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "bad cursor"}
	}}
	got := ""
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			got += fmt.Sprint(" ", jsonrpc.CodeOf(err))
		} else {
			got += " " + tool.Name
		}
	}
	if got != " a -32602" {
		t.Errorf("got%s", got)
	}
	if _, err := c.Tool(t.Context(), "b"); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("got %v", err)
	}
}

func TestListIsCachedUntilItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := `{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}`
		two := `{"tools":[{"name":"two","inputSchema":{"type":"object"}}]}`
		change := func(s *scripted) {
			t.Helper()
			if err := s.Notify(t.Context(), "notifications/tools/list_changed", nil); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		c, s := connect(t, nil, nil)
		s.answers = map[string]func(string) (string, error){"tools/list": always(one)}
		list := func() []string { return names(t, c.Tools(t.Context()), toolName) }
		list()
		list()
		s.took(`tools/list {}`)
		s.answers["tools/list"] = always(two)
		change(s)
		if got := list(); !cmp.Equal(got, []string{"two"}) {
			t.Errorf("got %q", got)
		}
		s.took(`tools/list {}`)

		// A list that changes while it is fetched is not cached.
		change(s)
		s.answers["tools/list"] = func(string) (string, error) { change(s); return one, nil }
		list()
		s.answers["tools/list"] = always(two)
		if got := list(); !cmp.Equal(got, []string{"two"}) {
			t.Errorf("got %q", got)
		}
		s.took(`tools/list {}`, `tools/list {}`)

		// Tool uses the cached list. It fetches the list for a name that the cache does not have.
		if tool, err := c.Tool(t.Context(), "two"); err != nil || tool.Name != "two" {
			t.Errorf("got %v, %v", tool, err)
		}
		s.took()
		if _, err := c.Tool(t.Context(), "three"); !errors.Is(err, client.ErrUnknown) {
			t.Errorf("got %v", err)
		}
		s.took(`tools/list {}`)
	})
}

func TestListIsNotCachedWithoutListChanged(t *testing.T) {
	capabilities := everything()
	capabilities.Tools.ListChanged = nil
	c, s := connectAs(t, capabilities, nil, session.Options{}, map[string]func(string) (string, error){
		"tools/list": always(`{"tools":[]}`),
	})
	for range 2 {
		names(t, c.Tools(t.Context()), toolName)
	}
	s.took(`tools/list {}`, `tools/list {}`)
}

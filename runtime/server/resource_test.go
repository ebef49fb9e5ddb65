package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

func readText(_ context.Context, _ *server.Call, r server.Resource) (string, error) {
	return "text of " + r.URI + r.Vars.Encode(), nil
}

// Proves RES-02, RES-03, RES-07, RES-09, SDK-03.
func TestResourcesAreListedAndRead(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddResource(s, "test://a", "a", readText, server.DefineResource(func(r *mcp.Resource) {
		r.MIMEType = new("text/plain")
		r.Annotations = &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: new(0.0), LastModified: new("2025-01-12T15:00:58Z")}
	}))
	server.AddResource(s, "test://b", "b", func(context.Context, *server.Call, server.Resource) ([]byte, error) {
		return []byte{0, 1}, nil
	})
	server.AddResource(s, "test://missing", "missing", func(_ context.Context, _ *server.Call, r server.Resource) ([]mcp.AnyResourceContents, error) {
		return nil, server.NotFound(r.URI)
	})
	server.AddResource(s, "test://broken", "broken", func(context.Context, *server.Call, server.Resource) ([]mcp.AnyResourceContents, error) {
		return nil, errors.New("the disk is full")
	})
	server.AddTemplate(s, "greeting://{name}", "greeting", readText, server.DefineTemplate(func(t *mcp.ResourceTemplate) { t.MIMEType = new("text/x-greeting") }))
	server.AddTemplate(s, "files://host{/path*}{?v}", "files", readText)
	c := connect(t, s, clientConfig{})
	c.expect("resources/list", "", `{"resources":[
		{"name":"a","uri":"test://a","mimeType":"text/plain","annotations":{"audience":["user"],"priority":0,"lastModified":"2025-01-12T15:00:58Z"}},
		{"name":"b","uri":"test://b"},{"name":"broken","uri":"test://broken"},{"name":"missing","uri":"test://missing"}]}`)
	c.expect("resources/templates/list", "", `{"resourceTemplates":[
		{"name":"files","uriTemplate":"files://host{/path*}{?v}"},{"name":"greeting","uriTemplate":"greeting://{name}","mimeType":"text/x-greeting"}]}`)
	c.expect("resources/read", `{"uri":"test://a"}`, `{"contents":[{"uri":"test://a","mimeType":"text/plain","text":"text of test://a"}]}`)
	c.expect("resources/read", `{"uri":"test://b"}`, `{"contents":[{"uri":"test://b","blob":"AAE="}]}`)
	c.expect("resources/read", `{"uri":"greeting://x%20y"}`, `{"contents":[{"uri":"greeting://x%20y","mimeType":"text/x-greeting","text":"text of greeting://x%20yname=x+y"}]}`)
	c.expect("resources/read", `{"uri":"files://host/a/b?v=1"}`, `{"contents":[{"uri":"files://host/a/b?v=1","text":"text of files://host/a/b?v=1path=a&path=b&v=1"}]}`)
	for _, uri := range []string{"test://c", "test://missing"} {
		_, err := c.Call(t.Context(), "resources/read", &mcp.ReadResourceRequestParams{URI: uri})
		wire, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || wire.Code != -32002 || string(wire.Data) != `{"uri":"`+uri+`"}` {
			t.Errorf("%s: got %v, want -32002 with the uri", uri, err)
		}
	}
	c.expectError("resources/read", `{"uri":"test://broken"}`, jsonrpc.CodeInternalError)
}

// give returns a function that reads every resource as v.
func give[Out any](v Out) server.ReadFunc[Out] {
	return func(context.Context, *server.Call, server.Resource) (Out, error) { return v, nil }
}

func TestContentsFollowFromOutput(t *testing.T) {
	s := newServer(t, server.Options{})
	text := &mcp.TextResourceContents{URI: "test://own", Text: "t"}
	server.AddResource(s, "test://string", "x", give("a"))
	server.AddResource(s, "test://bytes", "x", give([]byte("a")))
	server.AddResource(s, "test://strings", "x", give([]string{"a", "b"}))
	server.AddResource(s, "test://blobs", "x", give([][]byte{[]byte("a"), nil}))
	server.AddResource(s, "test://one", "x", give[mcp.AnyResourceContents](text))
	server.AddTemplate(s, "many:{x}", "x", give([]mcp.AnyResourceContents{text, &mcp.BlobResourceContents{}}))
	c := connect(t, s, clientConfig{})
	for uri, want := range map[string]string{
		"test://string":  `{"uri":"test://string","text":"a"}`,
		"test://bytes":   `{"uri":"test://bytes","blob":"YQ=="}`,
		"test://strings": `{"uri":"test://strings","text":"a"},{"uri":"test://strings","text":"b"}`,
		"test://blobs":   `{"uri":"test://blobs","blob":"YQ=="},{"uri":"test://blobs","blob":""}`,
		"test://one":     `{"uri":"test://own","text":"t"}`,
		"many:1":         `{"uri":"test://own","text":"t"},{"uri":"many:1","blob":""}`,
	} {
		c.expect("resources/read", `{"uri":"`+uri+`"}`, `{"contents":[`+want+`]}`)
	}
}

// Proves RES-02, RES-08, RES-09, M-RES-02.
func TestInvalidURIsAreRejected(t *testing.T) {
	s := newServer(t, server.Options{})
	read := false
	server.AddTemplate(s, "file:///data/{+path}", "files", func(_ context.Context, _ *server.Call, r server.Resource) (string, error) {
		read = true
		return r.Vars.Get("path"), nil
	})
	server.AddTemplate(s, "search://all{?folder}", "search", func(context.Context, *server.Call, server.Resource) (string, error) {
		read = true
		return "", nil
	})
	c, modern := connect(t, s, clientConfig{}), connectRounds(t, s)
	for _, uri := range []string{
		"search://all?folder=..", "search://all?folder=a%2F..%2Fb", "file:///data/a?/../b", "not a uri", "", "relative/path", "file:///../x", "file:///data/../etc/passwd", "file:///data/a/../../etc/passwd",
		"file:///data/%2e%2e/etc/passwd", "file:///data/..%2fetc", `file:///data/..\\etc`, "file:///data/..%5cetc", "file:///data/%zz",
	} {
		if _, code := c.call("resources/read", `{"uri":"`+uri+`"}`); code == 0 || read {
			t.Errorf("%q was read", uri)
		}
		if _, failed := modern.send("resources/read", `{"uri":"`+uri+`"}`, nil); failed == nil || failed.Code != jsonrpc.CodeInvalidParams || read {
			t.Errorf("%q was read by a modern request: %v", uri, failed)
		}
	}
	c.expect("resources/read", `{"uri":"file:///data/a..b/c"}`, `{"contents":[{"uri":"file:///data/a..b/c","text":"a..b/c"}]}`)
	for _, def := range []mcp.Resource{{Name: "x", URI: "no uri"}, {Name: "x", URI: ""}, {Name: "x", URI: "test://x/../y"}, {URI: "test://x"}, {Name: "x", URI: "test://x", Annotations: &mcp.Annotations{Priority: new(2.0)}}} {
		if err := server.AddResource(s, def.URI, def.Name, readText, server.DefineResource(func(r *mcp.Resource) { *r = def })).Err(); err == nil {
			t.Errorf("%+v: no error", def)
		}
	}
	for _, def := range []mcp.ResourceTemplate{{Name: "x", URITemplate: "test://{x"}, {Name: "x"}, {URITemplate: "test://{x}"}} {
		if err := server.AddTemplate(s, def.URITemplate, def.Name, readText).Err(); err == nil {
			t.Errorf("%+v: no error", def)
		}
	}
}

// Proves RES-01.
func TestResourceCapabilitiesAreConfigurable(t *testing.T) {
	for _, subscribe := range []bool{false, true} {
		for _, changed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, server.Options{Features: server.Features{Capabilities: func(c *mcp.ServerCapabilities) {
					c.Resources = &mcp.ServerCapabilitiesResources{Subscribe: &subscribe, ListChanged: &changed}
				}}})
				c := connect(t, s, clientConfig{})
				want := &mcp.ServerCapabilitiesResources{Subscribe: &subscribe, ListChanged: &changed}
				if diff := cmp.Diff(want.Subscribe, c.Server().Capabilities.Resources.Subscribe); diff != "" {
					t.Error(diff)
				}
				server.AddResource(s, "test://a", "a", readText)
				synctest.Wait()
				if announced := len(c.notifications("notifications/resources/list_changed")) == 1; announced != changed {
					t.Errorf("listChanged %v: announced %v", changed, announced)
				}
			})
		}
	}
}

// Proves RES-05, RES-06.
func TestSubscribersAreNotifiedOfUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var subscribed, unsubscribed []string
		s := newServer(t, server.Options{
			Hooks: server.Hooks{
				Subscribe: func(_ context.Context, c *server.Call, uri string) error {
					if uri == "test://secret" {
						return &jsonrpc.Error{Code: -7, Message: "not for you"}
					}
					subscribed = append(subscribed, uri)
					return nil
				},
				Unsubscribe: func(_ context.Context, c *server.Call, uri string) { unsubscribed = append(unsubscribed, uri) },
			},
			Limits: server.Limits{Subscriptions: 2},
		})
		server.AddResource(s, "test://a", "a", readText)
		server.AddResource(s, "test://b", "b", readText)
		server.AddResource(s, "test://c", "c", readText)
		server.AddResource(s, "test://secret", "secret", readText)
		one, other := connect(t, s, clientConfig{}), connect(t, s, clientConfig{})
		one.expect("resources/subscribe", `{"uri":"test://a"}`, `{}`)
		one.expect("resources/subscribe", `{"uri":"test://a"}`, `{}`)
		one.expectError("resources/subscribe", `{"uri":"test://nothing"}`, -32002)
		one.expectError("resources/subscribe", `{"uri":"test://secret"}`, -7)
		s.ResourceUpdated("test://a")
		s.ResourceUpdated("test://b")
		s.ResourceUpdated("test://secret")
		synctest.Wait()
		if diff := cmp.Diff([]string{`{"uri":"test://a"}`}, one.notifications("notifications/resources/updated")); diff != "" {
			t.Errorf("notifications (-want +got):\n%s", diff)
		}
		if got := other.notifications("notifications/resources/updated"); got != nil {
			t.Errorf("notifications to another client: %v", got)
		}
		one.expect("resources/unsubscribe", `{"uri":"test://a"}`, `{}`)
		one.expect("resources/unsubscribe", `{"uri":"test://a"}`, `{}`)
		s.ResourceUpdated("test://a")
		synctest.Wait()
		if got := one.notifications("notifications/resources/updated"); len(got) != 1 {
			t.Errorf("after unsubscribing: %v", got)
		}
		one.expect("resources/subscribe", `{"uri":"test://a"}`, `{}`)
		one.expect("resources/subscribe", `{"uri":"test://b"}`, `{}`)
		one.expectError("resources/subscribe", `{"uri":"test://c"}`, jsonrpc.CodeInvalidRequest)
		one.Close()
		synctest.Wait()
		slices.Sort(unsubscribed)
		if diff := cmp.Diff([]string{"test://a", "test://a", "test://b"}, subscribed); diff != "" {
			t.Errorf("subscribed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"test://a", "test://a", "test://b"}, unsubscribed); diff != "" {
			t.Errorf("unsubscribed (-want +got):\n%s", diff)
		}
	})
}

// Proves SDK-03, PAGE-01.
func TestListFuncResourcesAreListed(t *testing.T) {
	s := newServer(t, server.Options{Features: server.Features{PageSize: 3}})
	for i := range 4 {
		server.AddResource(s, fmt.Sprintf("test://%d", i), "s", readText)
	}
	list := func(scheme string, pages int) server.ListFunc {
		return func(_ context.Context, _ *server.Call, cursor string) (page []mcp.Resource, next string, err error) {
			n := 0
			fmt.Sscan(cursor, &n)
			for i := range 2 {
				page = append(page, mcp.Resource{Name: "d", URI: fmt.Sprintf("%s://%d-%d", scheme, n, i)})
			}
			if n+1 < pages {
				next = fmt.Sprint(n + 1)
			}
			return page, next, nil
		}
	}
	server.AddTemplate(s, "x://{n}", "x", readText, list("x", 2))
	server.AddTemplate(s, "y://{n}", "none", readText)
	server.AddTemplate(s, "z://{n}", "z", readText, list("z", 3))
	c := connect(t, s, clientConfig{})
	want := []string{"test://0", "test://1", "test://2", "test://3", "x://0-0", "x://0-1", "x://1-0", "x://1-1", "z://0-0", "z://0-1", "z://1-0", "z://1-1", "z://2-0", "z://2-1"}
	var got []string
	var params mcp.PaginatedRequestParams
	for {
		page := must(mcp.ToServer{Caller: c}.ListResources(t.Context(), &params))
		for _, r := range page.Resources {
			got = append(got, r.URI)
		}
		if params.Cursor = page.NextCursor; page.NextCursor == nil {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

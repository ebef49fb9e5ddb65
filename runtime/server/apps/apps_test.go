package apps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/apps"
	"github.com/mcpwire/mcpwire/runtime/server/servertest"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

const page = "<!DOCTYPE html><title>Clock</title>"

// supporting is the extensions that a client with MCP Apps declares.
const supporting = `{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`

func answer(context.Context, *server.Call, struct{}) (string, error) { return "done", nil }

// newClock returns a server with a view, a tool without it, and a tool of each kind with it.
func newClock(t *testing.T, options *apps.ViewOptions) *server.Server {
	t.Helper()
	s := server.New("clock", "1", nil)
	view := apps.AddView(s, "ui://clock/view.html", "clock", page, options)

	own := server.DefineTool(func(def *mcp.Tool) {
		def.Meta = new(mcp.MetaObject)
		def.Meta.Extra.Set("own", json.RawMessage("1"))
	})
	server.AddTool(s, "app", "", answer, view.AppTool())
	server.AddTool(s, "both", "", answer, own, view.Tool())
	server.AddTool(s, "model", "", answer, view.ModelTool())
	server.AddTool(s, "plain", "", answer)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

// connect connects a client that declares the extensions. Without revisions, it supports all of them.
func connect(t *testing.T, s *server.Server, extensions string, revisions ...mcp.Revision) *client.Client {
	t.Helper()
	o := &client.Options{Session: session.Options{Revisions: revisions}}
	if extensions != "" {
		o.Features.Capabilities.Extensions = json.RawMessage(extensions)
	}
	return servertest.Connect(t, s, o)
}

// toolMeta returns a line with the name and the _meta of each tool.
func toolMeta(t *testing.T, c *client.Client) string {
	t.Helper()
	var lines []string
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		line := tool.Name
		if tool.Meta != nil {
			line += " " + encode(t, tool.Meta)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func encode(t *testing.T, v codec.Encoder) string {
	t.Helper()
	text, err := codec.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const (
	described = `app {"ui":{"resourceUri":"ui://clock/view.html","visibility":["app"]}}
both {"own":1,"ui":{"resourceUri":"ui://clock/view.html"}}
model {"ui":{"resourceUri":"ui://clock/view.html","visibility":["model"]}}
plain`
	undescribed = `both {"own":1}
model
plain`
)

func TestToolsAreDescribedForSupportingClients(t *testing.T) {
	for _, test := range []struct{ extensions, want string }{
		{supporting, described},
		{`{"com.example/a":[],"io.modelcontextprotocol/ui":{"mimeTypes":["image/png","TEXT/HTML; profile=\"mcp-app\""],"later":{}}}`, described},
		{"", undescribed},
		{`{}`, undescribed},
		{`{"com.example/a":{"mimeTypes":["text/html;profile=mcp-app"]}}`, undescribed},
		{`{"io.modelcontextprotocol/ui":{}}`, undescribed},
		{`{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}}`, undescribed},
		{`{"io.modelcontextprotocol/ui":{"mimeTypes":"text/html;profile=mcp-app"}}`, undescribed},
		{`{"io.modelcontextprotocol/ui":null}`, undescribed},
	} {
		t.Run(test.extensions, func(t *testing.T) {
			c := connect(t, newClock(t, nil), test.extensions)
			if diff := cmp.Diff(test.want, toolMeta(t, c)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if got, want := string(c.Server().Capabilities.Extensions), `{"io.modelcontextprotocol/ui":{}}`; got != want {
				t.Errorf("declared extensions %s, want %s", got, want)
			}
		})
	}
}

// For clients without the extension, neither the view nor tools of AppTool exist.
func TestViewIsHiddenFromOtherClients(t *testing.T) {
	s := newClock(t, nil)
	for _, test := range []struct {
		extensions string
		exists     bool
	}{{supporting, true}, {"", false}} {
		c := connect(t, s, test.extensions)
		listed := 0
		for _, err := range c.Resources(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			listed++
		}
		_, readErr := c.ReadResource(t.Context(), "ui://clock/view.html")
		_, callErr := c.CallTool(t.Context(), "app", nil)
		if (listed == 1) != test.exists || (readErr == nil) != test.exists || (callErr == nil) != test.exists {
			t.Errorf("extensions %q: %d resources, read: %v, call: %v", test.extensions, listed, readErr, callErr)
		}
		if _, err := c.CallTool(t.Context(), "both", nil); err != nil {
			t.Error(err)
		}
	}
}

func TestRevisionsWithoutToolMeta(t *testing.T) {
	for revision, want := range map[mcp.Revision]string{
		mcp.Revision20250618: described, mcp.Revision20250326: "both\nmodel\nplain", mcp.Revision20241105: "both\nmodel\nplain",
	} {
		c := connect(t, newClock(t, nil), supporting, revision)
		if diff := cmp.Diff(want, toolMeta(t, c)); diff != "" {
			t.Errorf("%s: tools (-want +got):\n%s", revision, diff)
		}
	}
}

// A Stateless handler does not know the capabilities of its clients.
func TestToolsAreDescribedForUnknownClients(t *testing.T) {
	s := newClock(t, nil)
	web := httptest.NewServer(must.Get(s.Handler(&streamable.HandlerOptions{Stateless: true})))
	defer web.Close()
	defer s.Close()
	c, err := client.Dial(t.Context(), web.URL, &client.Options{Session: session.Options{Revisions: session.Revisions()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if diff := cmp.Diff(described, toolMeta(t, c)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// The restrictions of a view are both in the list, for reviews, and with its contents.
func TestViewIsListedAndRead(t *testing.T) {
	const (
		listed = `{%s"mimeType":"text/html;profile=mcp-app","name":"clock","uri":"ui://clock/view.html"}`
		read   = `{%s"mimeType":"text/html;profile=mcp-app","text":"<!DOCTYPE html><title>Clock</title>","uri":"ui://clock/view.html"}`
		all    = `"_meta":{"ui":{"csp":{"connectDomains":["wss://a.example:8080","https://b.example"],"resourceDomains":["https://*.c.example"],` +
			`"frameDomains":["https://d.example"],"baseUriDomains":["https://e.example"]},` +
			`"permissions":{"camera":{},"clipboardWrite":{},"geolocation":{},"microphone":{}},"domain":"clock.example","prefersBorder":false}},`
		one = `"_meta":{"ui":{"permissions":{"geolocation":{}}}},`
	)
	for _, test := range []struct {
		name         string
		options      *apps.ViewOptions
		listed, read string
	}{
		{"no options", nil, fmt.Sprintf(listed, ""), fmt.Sprintf(read, "")},
		{"all options", &apps.ViewOptions{
			Description: "Shows the time.",
			CSP: apps.CSP{
				ConnectDomains: []string{"wss://a.example:8080", "https://b.example"}, ResourceDomains: []string{"https://*.c.example"},
				FrameDomains: []string{"https://d.example"}, BaseURIDomains: []string{"https://e.example"},
			},
			Permissions: apps.Permissions{Camera: true, Microphone: true, Geolocation: true, ClipboardWrite: true},
			Domain:      "clock.example", PrefersBorder: new(false),
		}, fmt.Sprintf(listed, all+`"description":"Shows the time.",`), fmt.Sprintf(read, all)},
		{"one option", &apps.ViewOptions{Permissions: apps.Permissions{Geolocation: true}}, fmt.Sprintf(listed, one), fmt.Sprintf(read, one)},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := connect(t, newClock(t, test.options), supporting)
			var listed []string
			for r, err := range c.Resources(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				listed = append(listed, encode(t, r))
			}
			result, err := c.ReadResource(t.Context(), "ui://clock/view.html")
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{test.listed}; !slices.Equal(listed, want) {
				t.Errorf("listed %s, want %s", listed, want)
			}
			if got := encode(t, result.Contents[0]); got != test.read {
				t.Errorf("read %s, want %s", got, test.read)
			}
		})
	}
}

func TestAddViewRejectsInvalidArguments(t *testing.T) {
	for _, test := range []struct {
		uri, name, page string
		options         apps.ViewOptions
		want            string
	}{
		{"http://clock", "clock", page, apps.ViewOptions{}, `apps: view "http://clock": URI does not begin with "ui://"`},
		{"ui://a b", "clock", page, apps.ViewOptions{}, `server: resource "clock": invalid URI: want an absolute URI (RFC 3986)`},
		{"ui://clock", "", page, apps.ViewOptions{}, `server: resource "ui://clock": no name`},
		{"ui://clock", "clock", "", apps.ViewOptions{}, `apps: view "ui://clock": page is not an HTML document`},
		{"ui://clock", "clock", "clock.html", apps.ViewOptions{}, `apps: view "ui://clock": page is not an HTML document`},
		{"ui://clock", "clock", page, apps.ViewOptions{CSP: apps.CSP{FrameDomains: []string{"https://a.example", "b.example"}}},
			`apps: view "ui://clock": FrameDomains: want an origin such as "https://example.com", got "b.example"`},
		{"ui://clock", "clock", page, apps.ViewOptions{CSP: apps.CSP{ConnectDomains: []string{"https://a.example; script-src *"}}},
			`apps: view "ui://clock": ConnectDomains: want an origin such as "https://example.com", got "https://a.example; script-src *"`},
	} {
		s := server.New("clock", "1", nil)
		view := apps.AddView(s, test.uri, test.name, test.page, &test.options)
		err := view.Err()
		if err == nil || err.Error() != test.want || !errors.Is(view.Remove(), err) {
			t.Errorf("got %v, %v, want %s", view, err, test.want)
		}
		if !errors.Is(s.Err(), err) || !strings.HasPrefix(fmt.Sprint(s.Err()), "apps_test.go:") {
			t.Errorf("the server records %v, want %v with the line of the call", s.Err(), err)
		}
		if err := server.AddTool(s, "tool", "", answer, view.Tool(), view.ModelTool(), view.AppTool()).Err(); err != nil {
			t.Errorf("the options of an invalid View cause a mistake of their own: %v", err)
		}
	}
	if err := apps.AddView(nil, "ui://clock", "clock", page, nil).Err(); err == nil {
		t.Error("a nil Server is accepted")
	}
}

func TestRemovedViewCannotBeRead(t *testing.T) {
	s := server.New("clock", "1", nil)
	view := apps.AddView(s, "ui://clock", "clock", page, nil)
	c := connect(t, s, supporting)
	if err := view.Remove(); err != nil {
		t.Fatal(err)
	}
	if result, err := c.ReadResource(t.Context(), "ui://clock"); err == nil {
		t.Errorf("read %v", result)
	}
	if err := (*apps.View)(nil).Remove(); !errors.Is(err, server.ErrRemoved) {
		t.Errorf("Remove of a nil View: %v", err)
	}
}

func TestViewCanBeShownAlways(t *testing.T) {
	c := connect(t, newClock(t, &apps.ViewOptions{Always: true}), "")
	if diff := cmp.Diff(described, toolMeta(t, c)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if _, err := c.ReadResource(t.Context(), "ui://clock/view.html"); err != nil {
		t.Error(err)
	}
}

// In revisions without sessions, each request says whether its client shows views.
//
// Proves M-EXT-02 and M-STATE-01.
func TestViewsOfModernRequests(t *testing.T) {
	h := must.Get(newClock(t, nil).Handler(nil))
	defer h.Close()
	post := func(method, params, extensions string) string {
		t.Helper()
		if extensions == "" {
			extensions = "{}"
		}
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
			"io.modelcontextprotocol/clientCapabilities":{"extensions":` + extensions + `}}}}`
		r := httptest.NewRequest("POST", "http://localhost/mcp", strings.NewReader(body))
		r.Header = map[string][]string{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {"ui://clock/view.html"},
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Body.String()
	}
	for range 2 {
		with, without := post("tools/list", "", supporting), post("tools/list", "", "")
		if !strings.Contains(with, `"app"`) || !strings.Contains(with, "resourceUri") || !strings.Contains(with, `"private"`) {
			t.Errorf("with the extension: %s", with)
		}
		if strings.Contains(without, `"app"`) || strings.Contains(without, "resourceUri") || !strings.Contains(without, `"private"`) {
			t.Errorf("without the extension: %s", without)
		}
		read := `"uri":"ui://clock/view.html",`
		if got := post("resources/read", read, supporting); !strings.Contains(got, "DOCTYPE") {
			t.Errorf("with the extension: %s", got)
		}
		if got := post("resources/read", read, ""); !strings.Contains(got, "-32602") {
			t.Errorf("without the extension: %s", got)
		}
	}
	if got := post("server/discover", "", ""); !strings.Contains(got, `"extensions":{"io.modelcontextprotocol/ui":{}}`) {
		t.Errorf("discovered: %s", got)
	}
}

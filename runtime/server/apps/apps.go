// Package apps shows web pages in clients: MCP Apps, the extension "io.modelcontextprotocol/ui" in
// its specification of 2026-01-26. It needs revision 2025-06-18 of the protocol or a later one.
//
// A view is an HTML page on the server. If the client calls a tool with a view, it shows the page in
// a sandboxed frame and passes the arguments and the result of the call to it. The page can call
// tools of the server through the client.
//
//	//go:embed poll.html
//	var page string
//
//	view := apps.AddView(s, "ui://poll/view.html", "poll", page, nil)
//	server.AddTool(s, "poll", "Asks the user to choose.", poll, view.Tool())
//	server.AddTool(s, "vote", "Counts a vote.", vote, view.AppTool())
//
// The server declares the extension once it has a view. Clients that have not declared it can call
// the tools without the page: they receive no _meta.ui, and neither views nor tools of
// [View.AppTool] exist for them. Every result therefore needs content that a model can read without
// the page; see also [Supported].
//
// The page talks to the client with JSON-RPC over postMessage. It sends ui/initialize, waits for the
// response, and sends ui/notifications/initialized. Then it receives the result of the tool in
// ui/notifications/tool-result, and may send tools/call. The page in examples/poll does this without
// a library. The npm package @modelcontextprotocol/ext-apps has one.
package apps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

const (
	// Extension is the identifier of the extension in the capabilities of clients and servers.
	Extension = "io.modelcontextprotocol/ui"
	// MIMEType is the media type of a view. A client that shows views declares the extension with
	// the settings {"mimeTypes":["text/html;profile=mcp-app"]}.
	MIMEType = "text/html;profile=mcp-app"
)

// ViewOptions configures a view. The zero value is useful, for a page that contains all its scripts
// and styles and connects to no other host.
type ViewOptions struct {
	// Description says what the view is for; "" for none.
	Description string
	// CSP lists the origins that the page needs. Clients block all others.
	CSP CSP
	// Permissions are the abilities of the browser that the page needs. A client may deny them.
	Permissions Permissions
	// Domain is the host name of the frame, for a page that needs the same origin every time, such
	// as for OAuth. Its form depends on the client. The default is a host name that the client
	// chooses.
	Domain string
	// PrefersBorder tells the client to draw a border and a background around the page, or not to.
	// If it is nil, the client decides.
	PrefersBorder *bool
	// Always shows the view to all clients, including those that have not declared the extension.
	// Some clients for tests do not declare it.
	Always bool
}

// CSP lists the origins that a view needs, such as "https://api.example.com", or
// "https://*.example.com" for all subdomains. The client makes a content security policy of them.
type CSP struct {
	// ConnectDomains are the origins of fetch, XMLHttpRequest and WebSocket.
	ConnectDomains []string `json:"connectDomains,omitempty"`
	// ResourceDomains are the origins of scripts, styles, images, fonts and media.
	ResourceDomains []string `json:"resourceDomains,omitempty"`
	// FrameDomains are the origins of frames in the page.
	FrameDomains []string `json:"frameDomains,omitempty"`
	// BaseURIDomains are the origins that a base element of the page may name.
	BaseURIDomains []string `json:"baseUriDomains,omitempty"`
}

// Permissions are the abilities of the browser that a view needs.
type Permissions struct {
	Camera, Microphone, Geolocation, ClipboardWrite bool
}

// View is a page that tools can show. [AddView] returns one. Its methods may be called by many
// goroutines. The options of a View that was not added have no effect.
type View struct {
	fault  error // why it was not added, unless handle has it
	uri    string
	always bool
	handle *server.Handle[mcp.Resource]
}

// AddView adds a page to the server and declares the extension. The URI has the scheme "ui", such as
// "ui://poll/view.html". Clients show the name. The page is a complete HTML document. Options may be
// nil. It is a fault if an argument is invalid, or if there is a resource with that URI
// ([server.ErrExists]): the view is not added, and the server does not start; see [View.Err].
//
// A client may fetch the page once and show it for many calls: put data into the results of tools,
// not into the page.
func AddView(s *server.Server, uri, name, page string, options *ViewOptions) *View {
	var o ViewOptions
	if options != nil {
		o = *options
	}
	ui, err := o.meta()
	switch {
	case s == nil:
		return &View{fault: errors.New("apps: nil Server")}
	case !strings.HasPrefix(uri, "ui://"):
		err = errors.New(`URI does not begin with "ui://"`)
	case !strings.HasPrefix(strings.TrimLeft(page, "\ufeff \t\r\n"), "<"):
		err = errors.New("page is not an HTML document")
	}
	if err != nil {
		return &View{fault: s.RecordMistake(fmt.Errorf("apps: view %q: %w", uri, err))}
	}
	var meta *mcp.MetaObject // listed, too, so that a client can review the view before a call
	if string(ui) != "{}" {
		meta = withUI(nil, ui)
	}
	contents := &mcp.TextResourceContents{URI: uri, MIMEType: new(MIMEType), Text: page, Meta: meta}
	read := func(context.Context, *server.Call, server.Resource) (mcp.AnyResourceContents, error) {
		return contents, nil
	}
	if err := s.Extend(server.Extension{ID: Extension}); err != nil {
		return &View{fault: err}
	}
	v := &View{uri: uri, always: o.Always}
	v.handle = server.AddResource(s, uri, name, read, server.VisibleTo(v.visible), server.DefineResource(func(r *mcp.Resource) {
		r.MIMEType, r.Meta = new(MIMEType), meta
		if o.Description != "" {
			r.Description = &o.Description
		}
	}))
	return v
}

// Err returns why the view was not added, or nil. Like [server.Handle.Err], it need not be checked
// before the server starts.
func (v *View) Err() error {
	switch {
	case v == nil:
		return server.ErrRemoved
	case v.fault != nil:
		return v.fault
	}
	return v.handle.Err()
}

// meta returns the member ui of the _meta of a view.
func (o *ViewOptions) meta() (json.RawMessage, error) {
	for _, list := range []struct {
		name    string
		origins []string
	}{
		{"ConnectDomains", o.CSP.ConnectDomains}, {"ResourceDomains", o.CSP.ResourceDomains},
		{"FrameDomains", o.CSP.FrameDomains}, {"BaseURIDomains", o.CSP.BaseURIDomains},
	} {
		for _, origin := range list.origins {
			scheme, host, ok := strings.Cut(origin, "://")
			if !ok || scheme == "" || host == "" || strings.ContainsAny(origin, " \t\r\n;,'\"") {
				return nil, fmt.Errorf("%s: want an origin such as \"https://example.com\", got %q", list.name, origin)
			}
		}
	}
	type empty struct{}
	ui := struct {
		CSP           *CSP             `json:"csp,omitempty"`
		Permissions   map[string]empty `json:"permissions,omitempty"`
		Domain        string           `json:"domain,omitempty"`
		PrefersBorder *bool            `json:"prefersBorder,omitempty"`
	}{Permissions: map[string]empty{}, Domain: o.Domain, PrefersBorder: o.PrefersBorder}
	if len(o.CSP.ConnectDomains)+len(o.CSP.ResourceDomains)+len(o.CSP.FrameDomains)+len(o.CSP.BaseURIDomains) > 0 {
		ui.CSP = &o.CSP
	}
	for name, needed := range map[string]bool{
		"camera": o.Permissions.Camera, "microphone": o.Permissions.Microphone,
		"geolocation": o.Permissions.Geolocation, "clipboardWrite": o.Permissions.ClipboardWrite,
	} {
		if needed {
			ui.Permissions[name] = empty{}
		}
	}
	return codec.Marshal(value.Of(ui))
}

// Remove removes the view from the server. It fails with the error of Err if the view was not added,
// and with [server.ErrRemoved] a second time. Remove the tools that show the view as well.
func (v *View) Remove() error {
	if err := v.Err(); err != nil {
		return err
	}
	return v.handle.Remove()
}

// Tool is an option of a tool whose calls show the view. The model and the page can call the tool.
func (v *View) Tool() server.ToolOption { return v.tool() }

// ModelTool is [View.Tool] for a tool that the page cannot call.
func (v *View) ModelTool() server.ToolOption { return v.tool("model") }

// AppTool is an option of a tool that only the page calls, such as for a button. Clients hide it from
// the model. It does not exist for clients that have not declared the extension.
func (v *View) AppTool() server.ToolOption {
	if v.Err() != nil {
		return server.ToolOptions()
	}
	return server.ToolOptions(server.VisibleTo(v.visible), v.tool("app"))
}

func (v *View) tool(visibility ...string) server.ToolOption {
	if v.Err() != nil {
		return server.ToolOptions()
	}
	ui, err := codec.Marshal(value.Of(struct {
		ResourceURI string   `json:"resourceUri"`
		Visibility  []string `json:"visibility,omitempty"`
	}{v.uri, visibility}))
	if err != nil {
		panic(err) // not reached: the server has checked the URI
	}
	return server.DefineToolFor(func(c *server.Call, def *mcp.Tool) {
		if v.visible(c) {
			def.Meta = withUI(def.Meta, ui)
		}
	})
}

// visible reports whether the view exists for a call.
func (v *View) visible(c *server.Call) bool { return v.always || Supported(c) }

// withUI returns a copy of meta with the member ui.
func withUI(meta *mcp.MetaObject, ui json.RawMessage) *mcp.MetaObject {
	var out mcp.MetaObject
	if meta != nil {
		out = *meta
	}
	out.Extra.Set("ui", ui)
	return &out
}

// listsMeta reports whether tools have a _meta in a revision.
func listsMeta(rev mcp.Revision) bool {
	return mcp.Project(rev, &mcp.Tool{Meta: new(mcp.MetaObject)}).Meta != nil
}

// Supported reports whether the client of a call shows views. If it does, a tool can return less
// text, for example. If the capabilities of the client are unknown, as with a Stateless handler of
// Streamable HTTP, Supported returns true. In revisions before 2025-06-18, tools have no _meta, so
// it returns false.
func Supported(c *server.Call) bool {
	capabilities := c.ClientCapabilities()
	switch {
	case capabilities == nil:
		return true
	case len(capabilities.Extensions) == 0, !listsMeta(c.Revision()):
		return false
	}
	var extensions map[string]json.RawMessage
	if codec.Unmarshal(capabilities.Extensions, value.Of(&extensions)) != nil || extensions[Extension] == nil {
		return false
	}
	var settings struct {
		MIMETypes []string `json:"mimeTypes"`
	}
	if codec.Unmarshal(extensions[Extension], value.Of(&settings)) != nil {
		return false
	}
	for _, name := range settings.MIMETypes {
		if kind, parameters, err := mime.ParseMediaType(name); err == nil && kind == "text/html" && parameters["profile"] == "mcp-app" {
			return true
		}
	}
	return false
}

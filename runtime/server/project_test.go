package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/schema"
)

// schemaDefinitions holds the definitions of a revision's schema, by name.
type schemaDefinitions map[string]map[string]any

func definitionsOf(t *testing.T, rev mcp.Revision) schemaDefinitions {
	t.Helper()
	var doc struct {
		Definitions schemaDefinitions `json:"definitions"`
		Defs        schemaDefinitions `json:"$defs"`
	}
	if err := json.Unmarshal(must(schema.Read(string(rev))), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Defs != nil {
		return doc.Defs
	}
	return doc.Definitions
}

// undefinedMembers returns the paths of members that a schema does not define, and of union values
// for which it has no variant.
func (d schemaDefinitions) undefinedMembers(s map[string]any, v any, at string) (found []string) {
	if ref, ok := s["$ref"].(string); ok {
		return d.undefinedMembers(d[path.Base(ref)], v, at)
	}
	if variants, ok := s["anyOf"].([]any); ok {
		object, _ := v.(map[string]any)
		for _, variant := range variants {
			resolved := variant.(map[string]any)
			if ref, ok := resolved["$ref"].(string); ok {
				resolved = d[path.Base(ref)]
			}
			properties, _ := resolved["properties"].(map[string]any)
			kind, _ := properties["type"].(map[string]any)
			if kind == nil && (properties["text"] != nil) == (object["text"] != nil) || kind != nil && kind["const"] == object["type"] {
				return d.undefinedMembers(resolved, v, at)
			}
		}
		return []string{at}
	}
	switch v := v.(type) {
	case []any:
		items, _ := s["items"].(map[string]any)
		for i, e := range v {
			found = append(found, d.undefinedMembers(items, e, fmt.Sprint(at, "/", i))...)
		}
	case map[string]any:
		properties, ok := s["properties"].(map[string]any)
		if !ok {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			p, ok := properties[name].(map[string]any)
			if !ok {
				found = append(found, at+"/"+name)
			} else if !strings.HasSuffix(name, "Schema") {
				found = append(found, d.undefinedMembers(p, v[name], at+"/"+name)...)
			}
		}
	}
	return found
}

// Proves LIFE-12.
func TestResultsFitOlderRevisions(t *testing.T) {
	icons := []mcp.Icon{{Src: "https://example.com/icon.png"}}
	meta := &mcp.MetaObject{}
	meta.Extra.Set("example.com/x", []byte(`1`))
	hints := &mcp.Annotations{Priority: new(0.5), LastModified: new("2025-01-12T15:00:58Z")}
	contents := func() []mcp.AnyResourceContents {
		return []mcp.AnyResourceContents{&mcp.TextResourceContents{Text: "t", Meta: meta}, &mcp.BlobResourceContents{Meta: meta}}
	}
	blocks := []mcp.ContentBlock{
		&mcp.TextContent{Text: "t", Meta: meta, Annotations: hints}, &mcp.ImageContent{Data: "aQ==", MIMEType: "image/png", Meta: meta, Annotations: hints},
		&mcp.AudioContent{Data: "aQ==", MIMEType: "audio/wav", Meta: meta, Annotations: hints},
		&mcp.ResourceLink{Name: "n", URI: "x://y", Icons: icons, Title: new("T"), Description: new("about"), Annotations: hints, Meta: meta},
		&mcp.EmbeddedResource{Resource: &mcp.TextResourceContents{URI: "x://y", Text: "e", MIMEType: new("text/plain"), Meta: meta}, Meta: meta, Annotations: hints},
	}
	result := &mcp.CallToolResult{Content: blocks, StructuredContent: json.RawMessage(`{"sum":1,"notes":[]}`), ResultType: new("complete")}
	whole := string(must(json.Marshal(result)))

	s := server.New("n", "1", &server.Options{
		Info:  mcp.Implementation{Title: new("T"), Description: new("about"), WebsiteURL: new("https://example.com"), Icons: icons},
		Tasks: task.Options{Store: memory.New()},
	})
	defer s.Close()
	server.AddTool(s, "add", "", add, server.DefineTool(func(t *mcp.Tool) {
		t.Title = new("T")
		t.Icons = icons
		t.Meta = meta
		t.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: new(true)}
		t.Execution = &mcp.ToolExecution{TaskSupport: new(mcp.TaskSupportOptional)}
	}))
	server.AddTool(s, "all", "", func(context.Context, *server.Call, struct{}) (*mcp.CallToolResult, error) { return result, nil })
	server.AddResource(s, "x://y", "x", func(context.Context, *server.Call, server.Resource) ([]mcp.AnyResourceContents, error) {
		return contents(), nil
	}, server.DefineResource(func(r *mcp.Resource) {
		r.Title = new("T")
		r.Icons = icons
		r.Meta = meta
		r.Annotations = hints
	}))
	server.AddTemplate(s, "x://{y}", "x", readText, server.DefineTemplate(func(t *mcp.ResourceTemplate) {
		t.Title = new("T")
		t.Icons = icons
		t.Meta = meta
		t.Annotations = hints
	}), server.Complete("y", server.OneOf("a")))
	server.AddPrompt(s, "p", "", func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
		r := new(mcp.GetPromptResult)
		for _, b := range blocks {
			r.Messages = append(r.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: b})
		}
		return r, nil
	}, server.DefinePrompt(func(p *mcp.Prompt) {
		p.Title = new("T")
		p.Icons = icons
		p.Meta = meta
		p.Arguments = []mcp.PromptArgument{{Name: "a", Title: new("T")}}
	}))
	for _, rev := range []mcp.Revision{mcp.Revision20241105, mcp.Revision20250326, mcp.Revision20250618, mcp.Revision20251125} {
		d := definitionsOf(t, rev)
		c := connect(t, s, clientConfig{revision: rev})
		if c.Revision() != rev {
			t.Fatalf("got revision %s, want %s", c.Revision(), rev)
		}
		check := func(definition, text string) {
			t.Helper()
			if found := d.undefinedMembers(d[definition], decoded(text), ""); found != nil {
				t.Errorf("%s, %s: undefined members %v in %s", rev, definition, found, text)
			}
			if err := mcp.Validate(rev, definition, []byte(text)); err != nil {
				t.Errorf("%s, %s: %v", rev, definition, err)
			}
		}
		check("InitializeResult", string(must(json.Marshal(c.Server()))))
		for _, tt := range []struct{ method, params, definition string }{
			{"tools/list", ``, "ListToolsResult"},
			{"resources/list", ``, "ListResourcesResult"},
			{"resources/templates/list", ``, "ListResourceTemplatesResult"},
			{"resources/read", `{"uri":"x://y"}`, "ReadResourceResult"},
			{"prompts/list", ``, "ListPromptsResult"},
			{"prompts/get", `{"name":"p"}`, "GetPromptResult"},
			{"tools/call", `{"name":"all"}`, "CallToolResult"},
			{"tools/call", `{"name":"add","arguments":{"a":1,"b":1}}`, "CallToolResult"},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"x://{y}"},"argument":{"name":"y","value":""}}`, "CompleteResult"},
		} {
			text, code := c.call(tt.method, tt.params)
			if code != 0 {
				t.Errorf("%s: %s failed: %s", rev, tt.method, text)
				continue
			}
			check(tt.definition, text)
		}
		if rev < mcp.Revision20250618 {
			result, _ := c.call("tools/call", `{"name":"all"}`)
			if !strings.Contains(result, `[resource n (about): x://y]`) {
				t.Errorf("%s: no text for the link: %s", rev, result)
			}
		}
		c.Close()
	}
	if now := string(must(json.Marshal(result))); now != whole {
		t.Errorf("the handler's result was changed to %s", now)
	}
}

func TestStructuredOutputWithoutContentFitsOlderRevisions(t *testing.T) {
	s := newServer(t, server.Options{})
	result := &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"sum":1}`)}
	server.AddTool(s, "sum", "", func(context.Context, *server.Call, struct{}) (*mcp.CallToolResult, error) { return result, nil })
	for rev, want := range map[mcp.Revision]string{
		mcp.Revision20241105: `{"content":[{"type":"text","text":"{\"sum\":1}"}]}`,
		mcp.Revision20250326: `{"content":[{"type":"text","text":"{\"sum\":1}"}]}`,
		mcp.Revision20250618: `{"content":[],"structuredContent":{"sum":1}}`,
	} {
		if got, _ := connect(t, s, clientConfig{revision: rev}).call("tools/call", `{"name":"sum"}`); got != want {
			t.Errorf("%s: got %s, want %s", rev, got, want)
		}
	}
	if result.Content != nil {
		t.Errorf("the handler's result was changed: %v", result.Content)
	}
}

// Proves SDK-05.
func TestTitlesAndIconsAreListed(t *testing.T) {
	s := newServer(t, server.Options{})
	icons := []mcp.Icon{{Src: "https://example.com/icon.png", MIMEType: new("image/png"), Sizes: []string{"48x48"}}}
	server.AddTool(s, "x", "", sayHi, server.DefineTool(func(t *mcp.Tool) {
		t.Title = new("T")
		t.Icons = icons
	}))
	server.AddPrompt(s, "x", "", func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }, server.DefinePrompt(func(p *mcp.Prompt) {
		p.Title = new("T")
		p.Icons = icons
	}))
	server.AddResource(s, "x://", "x", readText, server.DefineResource(func(r *mcp.Resource) {
		r.Title = new("T")
		r.Icons = icons
	}))
	server.AddTemplate(s, "x://{y}", "x", readText, server.DefineTemplate(func(t *mcp.ResourceTemplate) {
		t.Title = new("T")
		t.Icons = icons
	}))
	c := connect(t, s, clientConfig{})
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		if got, _ := c.call(method, ""); !strings.Contains(got, `"icons":[{"mimeType":"image/png","sizes":["48x48"],"src":"https://example.com/icon.png"}]`) || !strings.Contains(got, `"title":"T"`) {
			t.Errorf("%s: %s", method, got)
		}
	}
}

func TestSampleFitsOlderRevisions(t *testing.T) {
	for rev, want := range map[mcp.Revision]string{
		mcp.Revision20241105: `[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"[sound of type audio/wav]"}}]`,
		mcp.Revision20250618: `[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"audio","data":"AAAA","mimeType":"audio/wav"}}]`,
		mcp.Revision20251125: `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"audio","data":"AAAA","mimeType":"audio/wav"}]}]`,
	} {
		client := respondWith(map[string]string{"sampling/createMessage": `{"role":"assistant","model":"m","content":{"type":"text","text":"b"}}`})
		callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"sampling":{}}`), handler: client.serve, revision: rev}, func(ctx context.Context, c *server.Call) (string, error) {
			_, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{
				Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "a"}, &mcp.AudioContent{Data: "AAAA", MIMEType: "audio/wav"}},
			}}}})
			return "", err
		})
		equalJSON(t, string(rev), `{"maxTokens":1,"messages":`+want+`}`, client.received["sampling/createMessage"][0])
	}
}

func TestExtensionsAreDeclaredInEveryRevision(t *testing.T) {
	s := newServer(t, server.Options{Features: server.Features{Capabilities: func(c *mcp.ServerCapabilities) {
		c.Extensions = json.RawMessage(`{"example.com/x":{}}`)
	}}})
	for _, rev := range []mcp.Revision{mcp.Revision20241105, mcp.Revision20251125} {
		c := connect(t, s, clientConfig{revision: rev})
		equalJSON(t, string(rev), `{"example.com/x":{}}`, string(c.Server().Capabilities.Extensions))
		c.Close()
	}
}

package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/experimental/partial"
	"github.com/mcpwire/mcpwire/runtime/server"
)

type terms struct {
	A     int      `json:"a" jsonschema:"the first term"`
	B     int      `json:"b"`
	Notes []string `json:"notes,omitempty"`
}

type sum struct {
	Sum   int      `json:"sum"`
	Notes []string `json:"notes"`
}

func add(ctx context.Context, c *server.Call, in terms) (sum, error) {
	if in.A == 13 {
		return sum{}, errors.New("13 brings bad luck")
	}
	return sum{in.A + in.B, in.Notes}, nil
}

// Proves TOOL-01, TOOL-02, TOOL-09, SDK-01, SDK-02.
func TestAddTool(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddTool(s, "add", "Adds two numbers.", add, server.DefineTool(func(t *mcp.Tool) {
		t.Title = new("Sum")
		t.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: new(true)}
	}))
	server.AddTool(s, "none", "", func(context.Context, *server.Call, struct{}) (string, error) { return "done", nil })
	s.AddRawTool(mcp.Tool{Name: "raw"}, func(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) {
		return server.Text(""), nil
	})
	c := connect(t, s, clientConfig{})
	if c.Server().Capabilities.Tools == nil {
		t.Error("no capability for tools")
	}
	c.expect("tools/list", "", `{"tools":[
		{"name":"add","title":"Sum","description":"Adds two numbers.","annotations":{"readOnlyHint":true},
		 "inputSchema":{"type":"object","properties":{"a":{"type":"integer","description":"the first term"},"b":{"type":"integer"},"notes":{"type":"array","items":{"type":"string"}}},"required":["a","b"],"additionalProperties":false},
		 "outputSchema":{"type":"object","properties":{"sum":{"type":"integer"},"notes":{"type":"array","items":{"type":"string"}}},"required":["sum","notes"],"additionalProperties":false}},
		{"name":"none","inputSchema":{"type":"object","additionalProperties":false}},
		{"name":"raw","inputSchema":{"type":"object"}}]}`)
	c.expect("tools/call", `{"name":"add","arguments":{"a":1,"b":2.0}}`,
		`{"content":[{"type":"text","text":"{\"sum\":3,\"notes\":[]}"}],"structuredContent":{"sum":3,"notes":[]}}`)
	c.expect("tools/call", `{"name":"none"}`, `{"content":[{"type":"text","text":"done"}]}`)
}

// A tool may return the bytes of a file.
func TestTextIsMadeUTF8(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddTool(s, "read", "", func(context.Context, *server.Call, struct{}) (string, error) { return "a\xff\xfeb", nil })
	c := connect(t, s, clientConfig{})
	c.expect("tools/call", `{"name":"read"}`, `{"content":[{"type":"text","text":"a\ufffdb"}]}`)
}

func TestAddRawToolRejectsNilServer(t *testing.T) {
	if err := (*server.Server)(nil).AddRawTool(mcp.Tool{Name: "t"}, nil).Err(); err == nil {
		t.Error("a nil server has a tool")
	}
}

// Proves TOOL-05, TOOL-06, SDK-02.
func TestToolErrorsAreResults(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddTool(s, "add", "", add)
	server.AddTool(s, "reject", "", func(context.Context, *server.Call, struct{}) (string, error) {
		return "", &jsonrpc.Error{Code: -7, Message: "not you"}
	})
	c := connect(t, s, clientConfig{})
	for _, tt := range []struct{ arguments, want string }{
		{`{"a":1}`, "missing property 'b'"},
		{`{}`, "missing properties 'a', 'b'"},
		{`{"a":"one","b":2,"c":3}`, "/a: got string, want integer\n"},
		{`{"a":"one","b":2,"c":3}`, "additional properties 'c' not allowed"},
		{`{"a":1.5,"b":2}`, "/a: got number, want integer"},
		{`{"a":1,"b":2,"notes":["x",7]}`, "/notes/1: got number, want string"},
		{`{"A":1,"a":1,"b":2}`, "'A'"},
		{`{"a":99999999999999999999,"b":2}`, "/a: "},
		{`{"a":1e999999,"b":2}`, "the number 1e999999 is out of range"},
		{`{"a":1e-99999999999999999999,"b":2}`, "the number 1e-99999999999999999 is out of range"},
		{`{"notes":[` + strings.Repeat("9", 500) + `]}`, "is out of range"},
		{`{"a":13,"b":2}`, "13 brings bad luck"},
	} {
		result, code := c.call("tools/call", `{"name":"add","arguments":`+tt.arguments+`}`)
		if code != 0 || !strings.Contains(result, `"isError":true`) || !strings.Contains(text(t, result), tt.want) {
			t.Errorf("%s: got %d %s, want an error for the model with %q", tt.arguments, code, result, tt.want)
		}
	}
	c.expectError("tools/call", `{"name":"nope"}`, jsonrpc.CodeInvalidParams)
	c.expectError("tools/call", `{"name":"ADD","arguments":{"a":1,"b":2}}`, jsonrpc.CodeInvalidParams)
	c.expectError("tools/call", `{"arguments":{}}`, jsonrpc.CodeInvalidParams)
	c.expectError("tools/call", `{"name":"add","arguments":[1,2]}`, jsonrpc.CodeInvalidParams)
	c.expectError("tools/call", `{"name":"reject"}`, -7)
}

// Proves TOOL-03, TOOL-12.
func TestToolReturnsAllKindsOfContent(t *testing.T) {
	s := newServer(t, server.Options{})
	blocks := []mcp.ContentBlock{
		&mcp.TextContent{Text: "t"}, &mcp.ImageContent{Data: "aQ==", MIMEType: "image/png"}, &mcp.AudioContent{Data: "aQ==", MIMEType: "audio/wav"},
		&mcp.ResourceLink{Name: "hidden", URI: "x://hidden"}, &mcp.EmbeddedResource{Resource: &mcp.TextResourceContents{URI: "x://y", Text: "e"}},
	}
	server.AddTool(s, "all", "", func(context.Context, *server.Call, struct{}) ([]mcp.ContentBlock, error) { return blocks, nil })
	server.AddTool(s, "one", "", func(context.Context, *server.Call, struct{}) (mcp.ContentBlock, error) { return blocks[0], nil })
	server.AddTool(s, "empty", "", func(context.Context, *server.Call, struct{}) ([]mcp.ContentBlock, error) { return nil, nil })
	server.AddTemplate(s, "x://{name}", "x", func(_ context.Context, _ *server.Call, r server.Resource) (string, error) {
		return "contents of " + r.Vars.Get("name"), nil
	})
	c := connect(t, s, clientConfig{})
	c.expect("tools/call", `{"name":"all"}`, `{"content":[{"type":"text","text":"t"},{"type":"image","data":"aQ==","mimeType":"image/png"},{"type":"audio","data":"aQ==","mimeType":"audio/wav"},
		{"type":"resource_link","name":"hidden","uri":"x://hidden"},{"type":"resource","resource":{"uri":"x://y","text":"e"}}]}`)
	c.expect("tools/call", `{"name":"one"}`, `{"content":[{"type":"text","text":"t"}]}`)
	c.expect("tools/call", `{"name":"empty"}`, `{"content":[]}`)
	c.expect("resources/read", `{"uri":"x://hidden"}`, `{"contents":[{"uri":"x://hidden","text":"contents of hidden"}]}`)
}

// Proves TOOL-07.
func TestStructuredOutputCompliesWithItsSchema(t *testing.T) {
	s := newServer(t, server.Options{})
	var def mcp.Tool
	if err := codec.Unmarshal([]byte(`{"name":"raw","inputSchema":{"type":"object","properties":{"give":{}}},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`), &def); err != nil {
		t.Fatal(err)
	}
	s.AddRawTool(def, func(ctx context.Context, c *server.Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		var in struct{ Give json.RawMessage }
		if err := json.Unmarshal(arguments, &in); err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{StructuredContent: in.Give, IsError: new(string(in.Give) == `{"n":"wrong"}`)}, nil
	})
	c := connect(t, s, clientConfig{})
	c.expect("tools/call", `{"name":"raw","arguments":{"give":{"n":1}}}`, `{"content":[],"isError":false,"structuredContent":{"n":1}}`)
	c.expect("tools/call", `{"name":"raw","arguments":{"give":{"n":"wrong"}}}`, `{"content":[],"isError":true,"structuredContent":{"n":"wrong"}}`)
	c.expectError("tools/call", `{"name":"raw","arguments":{"give":{"n":"bad"}}}`, jsonrpc.CodeInternalError)
	c.expectError("tools/call", `{"name":"raw","arguments":{}}`, jsonrpc.CodeInternalError)
}

func TestStructuredOutputIsAnObject(t *testing.T) {
	s := newServer(t, server.Options{})
	var output string
	server.AddTool(s, "t", "", func(context.Context, *server.Call, struct{}) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(output)}, nil
	})
	c := connect(t, s, clientConfig{})
	for text, want := range map[string]int64{"\n{}": 0, "[1]": -32603, "1": -32603, "null": -32603, "": -32603} {
		output = text
		if result, code := c.call("tools/call", `{"name":"t"}`); code != want {
			t.Errorf("%q: got code %d and %s, want code %d", text, code, result, want)
		}
	}
}

// Proves TOOL-10, SCHEMA-02, SCHEMA-03, M-TOOL-02, M-SCHEMA-02.
func TestAddToolRejectsInvalidDefinitions(t *testing.T) {
	s := newServer(t, server.Options{})
	raw := func(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) {
		return server.Text(""), nil
	}
	for _, def := range []string{
		`{"name":"","inputSchema":{"type":"object"}}`,
		`{"name":"a b","inputSchema":{"type":"object"}}`,
		`{"name":"a/b","inputSchema":{"type":"object"}}`,
		`{"name":"` + strings.Repeat("x", 129) + `","inputSchema":{"type":"object"}}`,
		`{"name":"t","inputSchema":{"type":"objekt"}}`,
		`{"name":"t","inputSchema":{"type":"array"}}`,
		`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"objekt"}}}}`,
		`{"name":"t","inputSchema":{"type":"object","$schema":"https://example.com/my-dialect"}}`,
		`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"minimum":5,"exclusiveMinimum":true}}}}`,
		`{"name":"t","inputSchema":{"type":"object","$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"exclusiveMinimum":5}}}}`,
		`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}}`,
		`{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":"x"}}`,
		`{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"type":"objekt"}}}}`,
	} {
		var tool mcp.Tool
		if err := codec.Unmarshal([]byte(def), &tool); err != nil {
			t.Fatal(err)
		}
		err := s.AddRawTool(tool, raw).Err()
		if err == nil {
			t.Errorf("%s: no error", def)
			continue
		}
		if dialect := strings.Contains(def, "my-dialect"); dialect != strings.Contains(err.Error(), `schema dialect "https://example.com/my-dialect" is not supported; supported: `+server.Dialects()[0]) {
			t.Errorf("%s: got %v", def, err)
		}
	}
	var old mcp.Tool
	if err := codec.Unmarshal([]byte(`{"name":"old","inputSchema":{"type":"object","$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":5,"exclusiveMinimum":true}}}}`), &old); err != nil {
		t.Fatal(err)
	}
	if err := s.AddRawTool(old, raw).Err(); err != nil {
		t.Errorf("a schema that is valid only in its own dialect: %v", err)
	}
	s.AddRawTool(mcp.Tool{Name: "getUser"}, raw)
	s.AddRawTool(mcp.Tool{Name: "GetUser"}, raw)
	if err := s.AddRawTool(mcp.Tool{Name: "getUser"}, raw).Err(); !errors.Is(err, server.ErrExists) {
		t.Errorf("a duplicate name: got %v, want ErrExists", err)
	}
	if err := server.AddTool(s, "n", "", func(context.Context, *server.Call, int) (string, error) { return "", nil }).Err(); err == nil {
		t.Error("arguments of type int: no error")
	}
	if err := server.AddTool(s, "n", "", func(context.Context, *server.Call, struct{}) (chan int, error) { return nil, nil }).Err(); err == nil {
		t.Error("output of type chan int: no error")
	}
}

// Proves SCHEMA-01, SCHEMA-02, TOOL-13, M-TOOL-02, M-TOOL-05, M-TOOL-06, M-SCHEMA-01, M-SCHEMA-02.
func TestToolSchemasAreListedAndApplied(t *testing.T) {
	s := newServer(t, server.Options{})
	schemas := map[string]string{
		"new":      `{"type":"object","$defs":{"short":{"type":"string","maxLength":3}},"properties":{"a":{"$ref":"#/$defs/short"}},"allOf":[{"required":["a"]}],"unevaluatedProperties":false}`,
		"draft-07": `{"type":"object","$schema":"http://json-schema.org/draft-07/schema#","definitions":{"short":{"type":"string","maxLength":3}},"properties":{"a":{"$ref":"#/definitions/short","minLength":100}},"required":["a"],"additionalProperties":false}`, // keywords beside $ref are ignored
	}
	for name, schema := range schemas {
		var def mcp.Tool
		if err := codec.Unmarshal([]byte(`{"name":"`+name+`","inputSchema":`+schema+`}`), &def); err != nil {
			t.Fatal(err)
		}
		s.AddRawTool(def, func(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) {
			return server.Text("fine"), nil
		})
	}
	c, modern := connect(t, s, clientConfig{}), connectRounds(t, s)
	listed, _ := c.call("tools/list", "")
	modernListed, _ := modern.send("tools/list", "{}", nil)
	for name, schema := range schemas {
		equalJSON(t, name, schema, inputSchemaOf(t, listed, name))
		equalJSON(t, "modern "+name, schema, inputSchemaOf(t, string(modernListed), name))
		for _, bad := range []string{`{"a":"long"}`, `{}`, `{"a":"x","b":1}`, `{"a":1}`} {
			if result, _ := c.call("tools/call", `{"name":"`+name+`","arguments":`+bad+`}`); !strings.Contains(result, `"isError":true`) {
				t.Errorf("%s: %s: got %s, want isError", name, bad, result)
			}
			if result, failed := modern.send("tools/call", `{"name":"`+name+`","arguments":`+bad+`}`, nil); !strings.Contains(string(result), `"isError":true`) {
				t.Errorf("modern %s: %s: got %s, %v, want isError", name, bad, result, failed)
			}
		}
		c.expect("tools/call", `{"name":"`+name+`","arguments":{"a":"abc"}}`, `{"content":[{"type":"text","text":"fine"}]}`)
	}
}

// inputSchemaOf returns the input schema of a tool in a list.
func inputSchemaOf(t *testing.T, list, name string) string {
	t.Helper()
	var r struct {
		Tools []struct {
			Name        string
			InputSchema json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(list), &r); err != nil {
		t.Fatal(err)
	}
	for _, tool := range r.Tools {
		if tool.Name == name {
			return string(tool.InputSchema)
		}
	}
	return ""
}

func TestReportedFaultsAreLimited(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddTool(s, "add", "", add)
	c := connect(t, s, clientConfig{})
	many := strings.Repeat("7,", 1000) + "7"
	long := strings.Repeat("ü", 1000)
	for arguments, want := range map[string]int{
		`{"a":1,"b":2,"notes":[` + many + `]}`: 1 + 20 + 1,
		`{"a":1,"b":2,"` + long + `":1}`:       1 + 1,
	} {
		result, _ := c.call("tools/call", `{"name":"add","arguments":`+arguments+`}`)
		lines := strings.Split(text(t, result), "\n")
		if len(lines) != want || len(lines[1]) > 310 {
			t.Errorf("%d lines, %d bytes long, want %d:\n%s", len(lines), len(lines[1]), want, text(t, result))
		}
	}
}

func TestDefaultsAreDecoded(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddTool(s, "add", "", add, server.DefineTool(func(t *mcp.Tool) {
		t.InputSchema = mcp.ToolInputSchema{Properties: json.RawMessage(`{"a":{"type":"integer","default":40},"b":{"type":"integer"}}`), Required: []string{"b"}}
	}))
	c := connect(t, s, clientConfig{})
	for arguments, want := range map[string]string{`{"b":2}`: `42`, `{"a":1,"b":2}`: `3`} {
		result, _ := c.call("tools/call", `{"name":"add","arguments":`+arguments+`}`)
		if !strings.Contains(text(t, result), `"sum":`+want) {
			t.Errorf("%s: got %s, want %s", arguments, result, want)
		}
	}
}

// Proves TOOL-13, COMPL-05.
func TestCallRate(t *testing.T) {
	s := newServer(t, server.Options{Limits: server.Limits{Calls: 0.001}})
	server.AddPrompt(s, "p", "", func(context.Context, *server.Call, map[string]string) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{}, nil
	}, server.DefinePrompt(func(p *mcp.Prompt) { p.Arguments = []mcp.PromptArgument{{Name: "a"}} }), server.Complete("a", server.OneOf("x")))
	server.AddTool(s, "add", "", add)
	c := connect(t, s, clientConfig{})
	c.call("tools/call", `{"name":"add","arguments":{"a":1,"b":2}}`)
	c.expectError("tools/call", `{"name":"add","arguments":{"a":1,"b":2}}`, -32050)
	c.expectError("completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`, -32050)
	c.expectError("prompts/get", `{"name":"p"}`, -32050)
	if _, code := c.call("tools/list", ""); code != 0 {
		t.Error("lists are limited, too")
	}
}

// Proves TOOL-13, PROMPT-02, PROMPT-03, PROMPT-06, RES-03, M-TOOL-06, M-RES-02.
func TestInvalidContentIsNotSent(t *testing.T) {
	const data = "aQ=="
	embedded := func(contents mcp.AnyResourceContents) mcp.ContentBlock {
		return &mcp.EmbeddedResource{Resource: contents}
	}
	for name, tt := range map[string]struct {
		block mcp.ContentBlock
		want  string // "" for valid content
	}{
		"text":                    {&mcp.TextContent{Text: "x"}, ""},
		"image":                   {&mcp.ImageContent{Data: data, MIMEType: "image/png"}, ""},
		"audio":                   {&mcp.AudioContent{Data: data, MIMEType: "audio/wav; codec=1"}, ""},
		"link":                    {&mcp.ResourceLink{Name: "x", URI: "file:///x"}, ""},
		"resource":                {embedded(&mcp.TextResourceContents{URI: "x:y", MIMEType: new("text/plain")}), ""},
		"binary resource":         {embedded(&mcp.BlobResourceContents{URI: "x:y", MIMEType: new("image/png"), Blob: data}), ""},
		"image not in base64":     {&mcp.ImageContent{Data: "a-_=", MIMEType: "image/png"}, "image data is not base64"},
		"image with a line break": {&mcp.ImageContent{Data: "aQ==\naQ=", MIMEType: "image/png"}, "image data is not base64"},
		"unpadded audio":          {&mcp.AudioContent{Data: "aQ", MIMEType: "audio/wav"}, "audio data is not base64"},
		"padding in the middle":   {&mcp.AudioContent{Data: "aQ==aQ==", MIMEType: "audio/wav"}, "audio data is not base64"},
		"image without type":      {&mcp.ImageContent{Data: data}, "image without a valid media type"},
		"audio of a bad type":     {&mcp.AudioContent{Data: data, MIMEType: "wav"}, "audio without a valid media type"},
		"link without URI":        {&mcp.ResourceLink{Name: "x"}, "resource link without a valid URI"},
		"resource without URI":    {embedded(&mcp.TextResourceContents{MIMEType: new("text/plain")}), "resource without a valid URI"},
		"resource of a bad type":  {embedded(&mcp.TextResourceContents{URI: "x:y", MIMEType: new("")}), "resource without a valid media type"},
		"resource not in base64":  {embedded(&mcp.BlobResourceContents{URI: "x:y", MIMEType: new("a/b"), Blob: "%"}), "resource data is not base64"},
		"unknown audience":        {&mcp.TextContent{Annotations: &mcp.Annotations{Audience: []mcp.Role{"robot"}}}, "annotations"},
		"nil":                     {nil, "nil content"},
		"nil text":                {(*mcp.TextContent)(nil), "nil content"},
		"nil image":               {(*mcp.ImageContent)(nil), "nil content"},
		"nil audio":               {(*mcp.AudioContent)(nil), "nil content"},
		"nil link":                {(*mcp.ResourceLink)(nil), "nil content"},
		"nil resource":            {(*mcp.EmbeddedResource)(nil), "nil content"},
		"no contents":             {embedded(nil), "resource without contents"},
		"nil contents":            {embedded((*mcp.TextResourceContents)(nil)), "resource without contents"},
		"nil binary contents":     {embedded((*mcp.BlobResourceContents)(nil)), "resource without contents"},
	} {
		s := newServer(t, server.Options{})
		server.AddTool(s, "x", "", func(context.Context, *server.Call, struct{}) ([]mcp.ContentBlock, error) {
			return []mcp.ContentBlock{&mcp.TextContent{}, tt.block}, nil
		})
		server.AddPrompt(s, "x", "", func(context.Context, *server.Call, map[string]string) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{server.UserText(""), mcp.PromptMessage{Role: mcp.RoleAssistant, Content: tt.block}}, nil
		})
		server.AddResource(s, "x:y", "x", func(context.Context, *server.Call, server.Resource) ([]mcp.AnyResourceContents, error) {
			if e, ok := tt.block.(*mcp.EmbeddedResource); ok && e != nil {
				return []mcp.AnyResourceContents{e.Resource}, nil
			}
			return nil, nil
		})
		c, modern := connect(t, s, clientConfig{}), connectRounds(t, s)
		for method, params := range map[string]string{"tools/call": `{"name":"x"}`, "prompts/get": `{"name":"x"}`, "resources/read": `{"uri":"x:y"}`} {
			if e, ok := tt.block.(*mcp.EmbeddedResource); method == "resources/read" && (!ok || e == nil || strings.Contains(name, "without URI")) {
				continue // contents without a URI get that of the resource
			}
			message, code := c.call(method, params)
			if want := tt.want != ""; (code == jsonrpc.CodeInternalError) != want || want && !strings.Contains(message, tt.want) {
				t.Errorf("%s from %s: got code %d, %s, want %q", name, method, code, message, tt.want)
			}
			if _, failed := modern.send(method, params, nil); (failed != nil && failed.Code == jsonrpc.CodeInternalError) != (tt.want != "") {
				t.Errorf("%s from modern %s: got %v, want %q", name, method, failed, tt.want)
			}
		}
	}
	for name, m := range map[string]mcp.PromptMessage{
		"role":                 {Role: "robot", Content: &mcp.TextContent{Text: "x"}},
		"media type":           {Role: mcp.RoleUser, Content: embedded(&mcp.TextResourceContents{URI: "x:y"})},
		"without a media type": {Role: mcp.RoleUser, Content: embedded(&mcp.BlobResourceContents{URI: "x:y"})},
	} {
		s := newServer(t, server.Options{})
		server.AddPrompt(s, "x", "", func(context.Context, *server.Call, map[string]string) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{m}, nil
		})
		message, code := connect(t, s, clientConfig{}).call("prompts/get", `{"name":"x"}`)
		if code != jsonrpc.CodeInternalError || !strings.Contains(message, name) {
			t.Errorf("prompt with a bad %s: got code %d, %s", name, code, message)
		}
	}
}

// Invalid UTF-8 in the text of an error is replaced.
func TestToolErrorTextIsValidUTF8(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddTool(s, "x", "", func(context.Context, *server.Call, struct{}) (string, error) {
		return "", errors.New("file a\xff is missing")
	})
	connect(t, s, clientConfig{}).expect("tools/call", `{"name":"x"}`, `{"content":[{"type":"text","text":"file a\uFFFD is missing"}],"isError":true}`)
}

func TestPartialResultsAreAnnounced(t *testing.T) {
	s := newServer(t, server.Options{})
	meta := &mcp.MetaObject{}
	meta.Extra.Set("example.com/a", []byte("1"))
	h := server.AddTool(s, "x", "", sayHi, server.DefineTool(func(t *mcp.Tool) { t.Meta = meta }), server.DefineTool(partial.Announce))
	if err := h.Change(func(d *mcp.Tool) { d.Title = new("T") }); err != nil {
		t.Fatal(err)
	}
	if meta.Extra.Len() != 1 {
		t.Error("the metadata of the caller was changed")
	}
	connect(t, s, clientConfig{}).expect("tools/list", "", `{"tools":[{"name":"x","title":"T","inputSchema":{"type":"object","additionalProperties":false},
		"_meta":{"example.com/a":1,"io.github.mcpwire/partialResults":true}}]}`)
}

// Proves JSONRPC-14.
func TestErrorMessageIsOneSentence(t *testing.T) {
	s := newServer(t, server.Options{})
	schema := new(mcp.ToolOutputSchema)
	if err := codec.Unmarshal([]byte(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}}}`), schema); err != nil {
		t.Fatal(err)
	}
	server.AddTool(s, "x", "", func(context.Context, *server.Call, struct{}) (*mcp.CallToolResult, error) {
		return server.Structured(map[string]int{"a": 1, "b": 2, "c": 3})
	}, server.DefineTool(func(t *mcp.Tool) { t.OutputSchema = schema }))
	message, code := connect(t, s, clientConfig{}).call("tools/call", `{"name":"x"}`)
	if code != jsonrpc.CodeInternalError || strings.Contains(message, "\n") || !strings.HasSuffix(message, "(and 2 more)") {
		t.Errorf("got code %d, %q", code, message)
	}
}

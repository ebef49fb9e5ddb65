package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	goccy "github.com/goccy/go-json"
	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/mcp"
)

// holder is a type of a caller with fields of protocol types.
type holder struct {
	Result  mcp.CallToolResult            `json:"result"`
	Task    *mcp.Task                     `json:"task,omitempty"`
	Content []mcp.ContentBlock            `json:"content"`
	Tools   map[string]mcp.Tool           `json:"tools"`
	Token   mcp.ProgressToken             `json:"token"`
	Number  codec.Number                  `json:"number"`
	Status  mcp.TaskStatus                `json:"status"`
	Schema  mcp.PrimitiveSchemaDefinition `json:"schema"`
}

var held = holder{
	Result: mcp.CallToolResult{
		Content:           []mcp.ContentBlock{&mcp.TextContent{Text: "a"}, &mcp.Unknown{Raw: json.RawMessage(`{"type":"new"}`)}},
		StructuredContent: json.RawMessage(`{"n":123456789012345678901234567890}`),
	},
	Task:    &mcp.Task{TaskID: "t", Status: mcp.TaskStatusWorking},
	Content: []mcp.ContentBlock{&mcp.ImageContent{Data: "AA==", MIMEType: "image/png"}},
	Tools:   map[string]mcp.Tool{"x": {Name: "x", Title: new("<&>")}},
	Token:   codec.IntScalar(5),
	Number:  "1.50",
	Status:  "odd",
	Schema:  &mcp.StringSchema{MinLength: new(int64(1))},
}

const heldJSON = `{"result":{"content":[{"type":"text","text":"a"},{"type":"new"}],"structuredContent":{"n":123456789012345678901234567890}},
	"task":{"createdAt":"","lastUpdatedAt":"","status":"working","taskId":"t","ttl":null},
	"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],
	"tools":{"x":{"inputSchema":{"type":"object"},"name":"x","title":"<&>"}},
	"token":5,"number":1.50,"status":"odd","schema":{"type":"string","minLength":1}}`

// encoding/json and goccy/go-json encode a protocol value inside another type as package codec
// does.
func TestMarshalInsideOtherTypes(t *testing.T) {
	for _, engine := range []struct {
		name    string
		marshal func(any) ([]byte, error)
	}{{"encoding/json", json.Marshal}, {"goccy/go-json", goccy.Marshal}} {
		for _, v := range []any{held, &held} {
			out, err := engine.marshal(v)
			if err != nil {
				t.Errorf("%s of %T: %v", engine.name, v, err)
				continue
			}
			same(t, engine.name, heldJSON, string(out))
		}
	}
}

// encoding/json and goccy/go-json decode a protocol value inside another type as package codec
// does. They cannot decode fields of a union type, but they can decode a struct of this package
// with unions inside.
func TestUnmarshalInsideOtherTypes(t *testing.T) {
	type readable struct {
		Result mcp.CallToolResult  `json:"result"`
		Task   *mcp.Task           `json:"task,omitempty"`
		Tools  map[string]mcp.Tool `json:"tools"`
		Token  mcp.ProgressToken   `json:"token"`
		Number codec.Number        `json:"number"`
		Status mcp.TaskStatus      `json:"status"`
	}
	want := readable{held.Result, held.Task, held.Tools, held.Token, held.Number, held.Status}
	for _, engine := range []struct {
		name      string
		unmarshal func([]byte, any) error
	}{{"encoding/json", json.Unmarshal}, {"goccy/go-json", func(data []byte, v any) error { return goccy.Unmarshal(data, v) }}} {
		var got readable
		if err := engine.unmarshal([]byte(heldJSON), &got); err != nil {
			t.Errorf("%s: %v", engine.name, err)
			continue
		}
		tool := got.Tools["x"]
		tool.InputSchema.Extra = wire.Extra{}
		got.Tools["x"] = tool
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", engine.name, diff)
		}
		// Package codec decodes the value and returns the error.
		err := engine.unmarshal([]byte(`{"result":{"content":[],"content":[]}}`), new(readable))
		if !errors.Is(err, codec.ErrDuplicate) {
			t.Errorf("%s: a duplicate member: %v", engine.name, err)
		}
		err = engine.unmarshal([]byte(`{"task":{"ttl":1.5}}`), new(readable))
		var e *codec.Error
		if !errors.As(err, &e) || e.Pointer != "/ttl" || !errors.Is(err, jsonfault.Integer) {
			t.Errorf("%s: a fraction for an integer: %v", engine.name, err)
		}
	}
}

// AppendJSON, MarshalJSON and package codec write the same bytes.
func TestEncodersAgree(t *testing.T) {
	v := &held.Result
	want := encode(t, v)
	std, err := json.Marshal(v)
	if err != nil || string(std) != want {
		t.Errorf("encoding/json writes %s, %v", std, err)
	}
	fast, err := goccy.Marshal(v)
	if err != nil || string(fast) != want {
		t.Errorf("goccy/go-json writes %s, %v", fast, err)
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(*v); err != nil || b.String() != want+"\n" {
		t.Errorf("an Encoder writes %s, %v", &b, err)
	}
	appended, err := codec.Append([]byte("x"), v)
	if err != nil || string(appended) != "x"+want {
		t.Errorf("Append writes %s, %v", appended, err)
	}
}

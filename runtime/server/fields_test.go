package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

type query struct {
	Region string `json:"region" jsonschema:"where" mcp-header:"Region"`
	Text   string `json:"text"`
	Limit  int    `json:"limit,omitempty" mcp-header:"X-Limit" minimum:"1"`
	Where  struct {
		Shard uint8 `json:"shard" mcp-header:"shard"`
		Fresh bool  `json:"fresh,omitempty" mcp-header:"Fresh"`
	} `json:"where,omitzero"`
}

// Proves M-HDR-19 and M-HDR-20.
func TestHeaderTag(t *testing.T) {
	schema, err := server.SchemaFor[query]()
	if err != nil {
		t.Fatal(err)
	}
	equalJSON(t, "schema", `{"type":"object","additionalProperties":false,"required":["region","text"],"properties":{
		"region":{"type":"string","description":"where","x-mcp-header":"Region"},"text":{"type":"string"},
		"limit":{"type":"integer","x-mcp-header":"X-Limit","minimum":1,"maximum":9007199254740991},
		"where":{"type":"object","additionalProperties":false,"required":["shard"],"properties":{
			"shard":{"type":"integer","x-mcp-header":"shard","minimum":0,"maximum":255},"fresh":{"type":"boolean","x-mcp-header":"Fresh"}}}}}`, string(schema))
	for want, err := range map[string]error{
		"number": addToolError[struct {
			F float64 `mcp-header:"A"`
		}](t),
		"array": addToolError[struct {
			F []string `mcp-header:"A"`
		}](t),
		"may be null": addToolError[struct {
			F *string `mcp-header:"A"`
		}](t),
		"want a name": addToolError[struct {
			F string `mcp-header:"a b"`
		}](t),
		"mcp-header:\"\"": addToolError[struct {
			F string `mcp-header:""`
		}](t),
		"write mcp-header": addToolError[struct {
			F string `x-mcp-header:"A"`
		}](t),
		"not unique": addToolError[struct {
			F string `mcp-header:"A"`
			G string `mcp-header:"a"`
		}](t),
		"not reached through properties alone": addToolError[struct {
			F []struct {
				G string `mcp-header:"A"`
			}
		}](t),
		"on a schema that is not reached": addToolError[struct {
			F map[string]struct {
				G string `mcp-header:"A"`
			}
		}](t),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	err = server.New("test", "1", nil).AddRawTool(mcp.Tool{Name: "raw", InputSchema: inputSchema(t, `{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`)}, nothing).Err()
	if err == nil || !strings.Contains(err.Error(), "want string, integer or boolean") {
		t.Errorf("own schema: got %v", err)
	}
}

// Proves M-HDR-15, M-HDR-16 and M-HDR-17.
func TestHeaderFieldsOfModernCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		server.AddTool(s, "query", "", func(_ context.Context, _ *server.Call, q query) (string, error) { return fmt.Sprint(q), nil })
		s.AddRawTool(mcp.Tool{Name: "raw", InputSchema: inputSchema(t, `{"type":"object","properties":{"a":{"type":"string","default":"d","x-mcp-header":"A"}}}`)}, func(_ context.Context, _ *server.Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			return server.Text(string(arguments)), nil
		})
		c := connectModern(t, s)
		overHTTP := func(header map[string][]string) { c.ctx = transport.WithHTTP(t.Context(), header, "127.0.0.1:1") }
		const all = `{"name":"query","arguments":{"region":"eu","text":"x","limit":3,"where":{"shard":7,"fresh":true}}}`
		header := func(edit func(h map[string][]string)) map[string][]string {
			h := map[string][]string{"Mcp-Param-Region": {"eu"}, "Mcp-Param-X-Limit": {"3.0"}, "Mcp-Param-Shard": {"7"}, "Mcp-Param-Fresh": {"true"}, "Mcp-Param-Text": {"ignored"}}
			edit(h)
			return h
		}
		overHTTP(header(func(map[string][]string) {}))
		if got := text(t, c.result("tools/call", all, "")); got != "{eu x 3 {7 true}}" {
			t.Errorf("got %s", got)
		}
		for message, edit := range map[string]func(h map[string][]string){
			"Mcp-Param-Region, which repeats argument region: the field is missing": func(h map[string][]string) { delete(h, "Mcp-Param-Region") },
			"argument limit: the field differs from the argument":                   func(h map[string][]string) { h["Mcp-Param-X-Limit"] = []string{"4"} },
			"Mcp-Param-Shard, which repeats argument where.shard":                   func(h map[string][]string) { h["Mcp-Param-Shard"] = []string{"=?base64?Nw?="} },
		} {
			overHTTP(header(edit))
			c.fails("tools/call", all, "", modern.CodeHeaderMismatch, message)
		}
		overHTTP(map[string][]string{"Mcp-Param-Region": {"eu"}})
		if got := text(t, c.result("tools/call", `{"name":"query","arguments":{"region":"eu","text":"x"}}`, "")); got != "{eu x 0 {0 false}}" {
			t.Errorf("without optional arguments: got %s", got)
		}
		c.fails("tools/call", `{"name":"raw","arguments":{"a":"b"}}`, "", modern.CodeHeaderMismatch, "missing")
		c.result("tools/call", `{"name":"raw","arguments":{"a":null}}`, "")
		c.result("tools/call", `{"name":"raw"}`, "")
		overHTTP(map[string][]string{"Mcp-Param-A": {"b"}})
		c.fails("tools/call", `{"name":"raw"}`, "", modern.CodeHeaderMismatch, "no such argument")
		c.ctx = t.Context() // not over HTTP
		c.result("tools/call", all, "")

		old := connect(t, s, clientConfig{})
		if list, _ := old.call("tools/list", ""); !strings.Contains(list, `"x-mcp-header":"Region"`) {
			t.Errorf("in a session: %s", list) // an unknown keyword does no harm
		}
		if got, code := old.call("tools/call", all); code != 0 {
			t.Errorf("in a session: %s", got)
		}
	})
}

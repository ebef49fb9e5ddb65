package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// Proves PROMPT-01, PROMPT-02, PROMPT-03, PROMPT-05, PROMPT-06.
func TestPromptsAreListedAndFilledIn(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddPrompt(s, "ask", "Asks.", func(_ context.Context, _ *server.Call, args map[string]string) (string, error) {
		return args["what"] + " " + args["how"], nil
	}, server.DefinePrompt(func(p *mcp.Prompt) {
		p.Arguments = []mcp.PromptArgument{{Name: "what", Required: new(true)}, {Name: "how"}}
	}))
	server.AddPrompt(s, "rich", "", func(context.Context, *server.Call, map[string]string) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: &mcp.ImageContent{Data: "aQ==", MIMEType: "image/png"}},
			{Role: mcp.RoleUser, Content: &mcp.AudioContent{Data: "aQ==", MIMEType: "audio/wav"}},
			{Role: mcp.RoleAssistant, Content: &mcp.EmbeddedResource{Resource: &mcp.TextResourceContents{URI: "x://y", Text: "e", MIMEType: new("text/plain")}}},
		}, nil
	})
	server.AddPrompt(s, "nothing", "", func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
		return nil, nil
	})
	c := connect(t, s, clientConfig{})
	if c.Server().Capabilities.Prompts == nil {
		t.Error("no capability for prompts")
	}
	c.expect("prompts/list", "", `{"prompts":[{"name":"ask","description":"Asks.","arguments":[{"name":"what","required":true},{"name":"how"}]},{"name":"nothing"},{"name":"rich"}]}`)
	c.expect("prompts/get", `{"name":"ask","arguments":{"what":"why","how":"not"}}`, `{"messages":[{"role":"user","content":{"type":"text","text":"why not"}}]}`)
	c.expect("prompts/get", `{"name":"ask","arguments":{"what":"why"}}`, `{"messages":[{"role":"user","content":{"type":"text","text":"why "}}]}`)
	c.expect("prompts/get", `{"name":"rich"}`, `{"messages":[{"role":"user","content":{"type":"image","data":"aQ==","mimeType":"image/png"}},
		{"role":"user","content":{"type":"audio","data":"aQ==","mimeType":"audio/wav"}},
		{"role":"assistant","content":{"type":"resource","resource":{"uri":"x://y","mimeType":"text/plain","text":"e"}}}]}`)
	c.expectError("prompts/get", `{"name":"nope"}`, jsonrpc.CodeInvalidParams)
	c.expectError("prompts/get", `{"name":"ask","arguments":{"how":"x"}}`, jsonrpc.CodeInvalidParams)
	c.expectError("prompts/get", `{"name":"ask","arguments":{"what":7}}`, jsonrpc.CodeInvalidParams)
	c.expectError("prompts/get", `{"name":"nothing"}`, jsonrpc.CodeInternalError)
	for _, def := range []mcp.Prompt{{}, {Name: "x", Arguments: []mcp.PromptArgument{{}}}, {Name: "x", Arguments: []mcp.PromptArgument{{Name: "a"}, {Name: "a"}}}} {
		get := func(context.Context, *server.Call, map[string]string) (string, error) { return "", nil }
		if err := server.AddPrompt(s, def.Name, "", get, server.DefinePrompt(func(p *mcp.Prompt) { *p = def })).Err(); err == nil {
			t.Errorf("%+v: no error", def)
		}
	}
}

// Proves COMPL-01, COMPL-02, COMPL-03, COMPL-04, SDK-04, M-COMP-01.
func TestComplete(t *testing.T) {
	s := newServer(t, server.Options{})
	get := func(context.Context, *server.Call, map[string]string) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{}, nil
	}
	city := func(_ context.Context, _ *server.Call, value string, others map[string]string) ([]string, error) {
		return []string{others["country"] + " " + value}, nil
	}
	many := func(_ context.Context, _ *server.Call, value string, _ map[string]string) (list []string, err error) {
		n, err := strconv.Atoi(value)
		for i := range n {
			list = append(list, fmt.Sprint(i))
		}
		return list, err
	}
	server.AddPrompt(s, "visit", "", get, server.DefinePrompt(func(p *mcp.Prompt) {
		p.Arguments = []mcp.PromptArgument{{Name: "country"}, {Name: "city"}, {Name: "many"}, {Name: "free"}}
	}), server.Complete("country", server.OneOf("France", "Finland", "Norway", "Ⱥb")), server.Complete("city", city), server.Complete("many", many))
	server.AddTemplate(s, "map://{country}/{city}", "map", readText, server.Complete("city", city))
	server.AddResource(s, "test://a", "a", readText)
	c, modern := connect(t, s, clientConfig{}), connectRounds(t, s)
	if c.Server().Capabilities.Completions == nil {
		t.Error("no capability for completion")
	}
	c.expect("completion/complete", `{"ref":{"type":"ref/prompt","name":"visit"},"argument":{"name":"country","value":"f"}}`,
		`{"completion":{"values":["France","Finland"],"total":2,"hasMore":false}}`)
	c.expect("completion/complete", `{"ref":{"type":"ref/prompt","name":"visit"},"argument":{"name":"country","value":"ⱥB"}}`,
		`{"completion":{"values":["Ⱥb"],"total":1,"hasMore":false}}`)
	c.expect("completion/complete", `{"ref":{"type":"ref/prompt","name":"visit"},"argument":{"name":"city","value":"Par"},"context":{"arguments":{"country":"France"}}}`,
		`{"completion":{"values":["France Par"],"total":1,"hasMore":false}}`)
	c.expect("completion/complete", `{"ref":{"type":"ref/resource","uri":"map://{country}/{city}"},"argument":{"name":"city","value":"Os"},"context":{"arguments":{"country":"Norway"}}}`,
		`{"completion":{"values":["Norway Os"],"total":1,"hasMore":false}}`)
	c.expect("completion/complete", `{"ref":{"type":"ref/prompt","name":"visit"},"argument":{"name":"free","value":""}}`, `{"completion":{"values":[]}}`)
	c.expect("completion/complete", `{"ref":{"type":"ref/resource","uri":"test://a"},"argument":{"name":"x","value":""}}`, `{"completion":{"values":[]}}`)
	for _, n := range []int{99, 100, 101, 150} {
		result := must(mcp.ToServer{Caller: c}.Complete(t.Context(), &mcp.CompleteRequestParams{
			Ref: &mcp.PromptReference{Name: "visit"}, Argument: mcp.CompleteRequestParamsArgument{Name: "many", Value: strconv.Itoa(n)},
		}))
		out := result.Completion
		if sent := min(n, 100); len(out.Values) != sent || out.Values[sent-1] != strconv.Itoa(sent-1) || *out.HasMore != (n > 100) || *out.Total != int64(n) {
			t.Errorf("%d values: got %d, more %v, total %d", n, len(out.Values), *out.HasMore, *out.Total)
		}
		answer, _ := modern.send("completion/complete", fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":"visit"},"argument":{"name":"many","value":"%d"}}`, n), nil)
		var values []string
		if err := json.Unmarshal([]byte(part(string(answer), "completion", "values")), &values); err != nil || len(values) != min(n, 100) {
			t.Errorf("%d values for a modern request: got %d, %v", n, len(values), err)
		}
	}
	for _, params := range []string{
		`{"ref":{"type":"ref/prompt","name":"nope"},"argument":{"name":"city","value":""}}`,
		`{"ref":{"type":"ref/prompt","name":"visit"},"argument":{"name":"nope","value":""}}`,
		`{"ref":{"type":"ref/prompt","name":"visit"}}`,
		`{"ref":{"type":"ref/resource","uri":"nope://{x}"},"argument":{"name":"x","value":""}}`,
		`{"ref":{"type":"ref/resource","uri":"map://{country}/{city}"},"argument":{"name":"nope","value":""}}`,
		`{"ref":{"type":"ref/other"},"argument":{"name":"x","value":""}}`,
	} {
		c.expectError("completion/complete", params, jsonrpc.CodeInvalidParams)
		if _, failed := modern.send("completion/complete", params, nil); failed == nil || failed.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("modern %s: got %v", params, failed)
		}
	}
	if err := server.AddPrompt(s, "p", "", get, server.Complete("nope", many)).Err(); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("completion of an unknown argument: got %v", err)
	}

	without := newServer(t, server.Options{})
	server.AddPrompt(without, "visit", "", get)
	_, err := connect(t, without, clientConfig{}).Call(t.Context(), "completion/complete", nil)
	if err == nil || !strings.Contains(err.Error(), "completions") {
		t.Errorf("a server without completion: got %v", err)
	}
}

// port is a number that reads from text.
type port struct{ n int }

func (p *port) UnmarshalText(text []byte) (err error) {
	p.n, err = strconv.Atoi(strings.TrimPrefix(string(text), ":"))
	return err
}

type shared struct {
	Page *int `json:"page,omitempty"`
}

type search struct {
	shared
	Query  string  `json:"query" jsonschema:"what to look for"`
	Exact  bool    `json:"exact,omitempty"`
	Score  float32 `json:"score,omitzero"`
	Limit  uint8   `json:"limit,omitempty"`
	At     port    `json:"at,omitempty"`
	hidden string
}

// The fields of a struct are the arguments of a prompt.
func TestPromptArgumentsAreFields(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddPrompt(s, "find", "Looks for a page.", func(_ context.Context, _ *server.Call, in search) (string, error) {
		page := 0
		if in.Page != nil {
			page = *in.Page
		}
		return fmt.Sprint(in.Query, in.Exact, in.Score, in.Limit, in.At.n, page, in.hidden), nil
	}, server.DefinePrompt(func(p *mcp.Prompt) {
		p.Title = new("Find")
		p.Arguments[1].Title = new("Words")
	}), server.Complete("query", server.OneOf("a")))
	server.AddPrompt(s, "list", "", func(context.Context, *server.Call, struct{}) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{server.UserText("a"), {Role: mcp.RoleAssistant, Content: &mcp.TextContent{Text: "b"}}}, nil
	})
	c := connect(t, s, clientConfig{})
	c.expect("prompts/list", "", `{"prompts":[{"name":"find","title":"Find","description":"Looks for a page.","arguments":[
		{"name":"page"},{"name":"query","title":"Words","description":"what to look for","required":true},{"name":"exact"},{"name":"score"},{"name":"limit"},{"name":"at"}]},
		{"name":"list"}]}`)
	for arguments, want := range map[string]string{
		`{"query":"x"}`: "xfalse 0 0 0 0",
		`{"query":"","exact":"true","score":"1.5","limit":"255","at":":80","page":"-3","other":"x"}`: "true 1.5 255 80 -3",
	} {
		c.expect("prompts/get", `{"name":"find","arguments":`+arguments+`}`, `{"messages":[{"role":"user","content":{"type":"text","text":"`+want+`"}}]}`)
	}
	c.expect("prompts/get", `{"name":"list"}`, `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"assistant","content":{"type":"text","text":"b"}}]}`)
	for arguments, want := range map[string]string{
		`{}`:                          `prompt "find" needs the argument "query"`,
		`{"query":"x","limit":"256"}`: `argument "limit": number "256" is out of range`,
		`{"query":"x","exact":"yes"}`: `argument "exact": want true or false, got "yes"`,
		`{"query":"x","page":""}`:     `argument "page": want a whole number, got ""`,
		`{"query":"x","at":"x"}`:      `argument "at": strconv.Atoi: parsing "x": invalid syntax`,
	} {
		if message, code := c.call("prompts/get", `{"name":"find","arguments":`+arguments+`}`); code != jsonrpc.CodeInvalidParams || message != want {
			t.Errorf("%s: got %d %s, want %s", arguments, code, message, want)
		}
	}
}

func TestAddPromptRejectsTypes(t *testing.T) {
	s := newServer(t, server.Options{})
	fails := func(err error, want string) {
		t.Helper()
		if err == nil || err.Error() != `server: prompt "x": `+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	err := server.AddPrompt(s, "x", "", func(context.Context, *server.Call, map[string]int) (string, error) { return "", nil }).Err()
	fails(err, "arguments: want a struct or map[string]string, got map[string]int")
	err = server.AddPrompt(s, "x", "", func(context.Context, *server.Call, struct{ A []string }) (string, error) { return "", nil }).Err()
	fails(err, "arguments: field A: cannot read a value of type []string from a text")
	err = server.AddPrompt(s, "x", "", func(context.Context, *server.Call, struct{ A json.RawMessage }) (string, error) { return "", nil }).Err()
	fails(err, fmt.Sprintf("arguments: field A: cannot read a value of type %v from a text", reflect.TypeFor[json.RawMessage]()))
	err = server.AddPrompt(s, "x", "", func(context.Context, *server.Call, struct {
		A int `jsonschema:"minimum=1"`
	}) (string, error) {
		return "", nil
	}).Err()
	fails(err, `arguments: field A: tag jsonschema:"minimum=1" is a description and cannot contain the keyword minimum=; write the tag minimum:"1" beside it`)
	err = server.AddPrompt(s, "x", "", func(context.Context, *server.Call, struct{}) (int, error) { return 0, nil }).Err()
	fails(err, "output: want string, []mcp.PromptMessage or *mcp.GetPromptResult, got int")
	get := func(context.Context, *server.Call, struct{ A string }) (string, error) { return "", nil }
	err = server.AddPrompt(s, "x", "", get, server.DefinePrompt(func(p *mcp.Prompt) { p.Arguments = nil })).Err()
	fails(err, `argument "A" is not in the description`)
	err = server.AddPrompt(s, "x", "", get, server.DefinePrompt(func(p *mcp.Prompt) {
		p.Arguments = append(p.Arguments, mcp.PromptArgument{Name: "b"})
	})).Err()
	fails(err, `no field for the argument "b"`)
}

// The tags of a field limit its argument, and an enum is its completion.
func TestPromptArgumentsComplyWithStructTags(t *testing.T) {
	type in struct {
		Color string    `json:"color" enum:"red,green" title:"Color"`
		Mode  *ruled    `json:"mode,omitempty"`
		N     int       `json:"n" minimum:"1" default:"3"`
		Word  string    `json:"word" default:"a b" maxLength:"3"`
		Own   string    `json:"own,omitempty" enum:"x,y"`
		At    time.Time `json:"at,omitzero"`
	}
	s := newServer(t, server.Options{})
	server.AddPrompt(s, "p", "", func(_ context.Context, _ *server.Call, in in) (string, error) {
		return fmt.Sprint(in.Color, in.N, in.Word), nil
	}, server.Complete("own", server.OneOf("z")))
	c := connect(t, s, clientConfig{})
	c.expect("prompts/list", "", `{"prompts":[{"name":"p","arguments":[{"name":"color","title":"Color","required":true},{"name":"mode"},{"name":"n"},{"name":"word"},{"name":"own"},{"name":"at"}]}]}`)
	for argument, want := range map[string]string{"color": `["green"]`, "mode": `[]`, "own": `[]`} {
		c.expect("completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"`+argument+`","value":"g"}}`,
			`{"completion":{"values":`+want+`,"total":`+strconv.Itoa(strings.Count(want, `"`)/2)+`,"hasMore":false}}`)
	}
	c.expect("completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"mode","value":""}}`, `{"completion":{"values":["a","b"],"total":2,"hasMore":false}}`)
	for arguments, want := range map[string]string{
		`{"color":"red"}`:                            "red3a b",
		`{"color":"red","n":"7","word":"x"}`:         "red7x",
		`{"color":"blue"}`:                           `argument "color": value must be one of 'red', 'green'`,
		`{"color":"red","n":"0"}`:                    `argument "n": minimum: got 0, want 1`,
		`{"color":"red","word":"four"}`:              `argument "word": maxLength: got 4, want 3`,
		`{"color":"red","at":"tomorrow"}`:            `argument "at": want a date and time such as 2025-01-31T12:00:00Z, got "tomorrow"`,
		`{"color":"red","n":"-9999999999999999999"}`: `argument "n": number "-9999999999999999999" is out of range`,
	} {
		message, _ := c.call("prompts/get", `{"name":"p","arguments":`+arguments+`}`)
		if message != want && !strings.Contains(message, `"text":"`+want+`"`) {
			t.Errorf("%s: got %s, want %s", arguments, message, want)
		}
	}
}

package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// responder is the handler of a client. It responds to each method with a fixed JSON result, and
// records the params.
type responder struct {
	mu       sync.Mutex
	results  map[string]string
	received map[string][]string
}

func respondWith(results map[string]string) *responder {
	return &responder{results: results, received: map[string][]string{}}
}

func (a *responder) serve(_ context.Context, req *session.Request) (codec.Encoder, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.received[req.Method] = append(a.received[req.Method], string(req.Params))
	result, ok := a.results[req.Method]
	if !ok {
		return nil, jsonrpc.MethodNotFound(req.Method)
	}
	return session.Raw(result), nil
}

// clientCapabilities decodes the capabilities of a client from JSON.
func clientCapabilities(t *testing.T, capabilities string) (c mcp.ClientCapabilities) {
	t.Helper()
	if err := codec.Unmarshal([]byte(capabilities), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// callTool calls a tool that runs f, and returns the text of the result, or the code and message of
// an error.
func callTool(t *testing.T, with clientConfig, f func(ctx context.Context, c *server.Call) (string, error)) string {
	t.Helper()
	s := newServer(t, server.Options{})
	server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) { return f(ctx, c) })
	c := connect(t, s, with)
	result, code := c.call("tools/call", `{"name":"do"}`)
	if code != 0 {
		return fmt.Sprint(code, " ", result)
	}
	return text(t, result)
}

type person struct {
	Name   string  `json:"name" jsonschema:"your name"`
	Age    int     `json:"age,omitempty"`
	Height float64 `json:"height,omitempty"`
	Member bool    `json:"member,omitempty"`
}

// Proves ELIC-03, ELIC-06, ELIC-17, SDK-15.
func TestElicitFillsStruct(t *testing.T) {
	for _, tt := range []struct{ answer, want string }{
		{`{"action":"accept","content":{"name":"Ada","age":36,"member":true}}`, `accept {Ada 36 1.7 true}`},
		{`{"action":"accept","content":{"name":"Ada","age":36,"height":1.75}}`, `accept {Ada 36 1.75 false}`},
		{`{"action":"accept","content":{"name":"Ada","more":{}}}`, server.ErrAnswer.Error() + ": invalid result of elicitation"},
		{`{"action":"decline"}`, `decline { 30 1.7 false}`},
		{`{"action":"cancel"}`, `cancel { 30 1.7 false}`},
		{`{"action":"accept","content":{"name":7}}`, server.ErrAnswer.Error() + ": name: must be a string"},
		{`{"action":"accept","content":{"age":7}}`, server.ErrAnswer.Error() + ": name: is required"},
		{`{"action":"accept"}`, server.ErrAnswer.Error() + ": name: is required"},
		{`{"action":"perhaps"}`, server.ErrAnswer.Error() + ": invalid result of elicitation"},
	} {
		client := respondWith(map[string]string{"elicitation/create": tt.answer})
		got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
			p := person{Age: 30, Height: 1.7}
			action, err := server.Elicit(ctx, c, "Who are you?", &p)
			return fmt.Sprint(action, " ", p), err
		})
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.answer, got, tt.want)
		}
		equalJSON(t, "params", `{"message":"Who are you?","requestedSchema":{"type":"object","required":["name"],"properties":{
			"name":{"type":"string","description":"your name"},"age":{"type":"integer","default":30},"height":{"type":"number","default":1.7},"member":{"type":"boolean"}}}}`,
			client.received["elicitation/create"][0])
	}
}

func TestElicitSendsNoZeroDefaults(t *testing.T) {
	client := respondWith(map[string]string{"elicitation/create": `{"action":"decline"}`})
	callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
		action, err := server.Elicit(ctx, c, "When?", &struct {
			From  time.Time     `json:"from"`
			Until time.Time     `json:"until"`
			Step  time.Duration `json:"step"`
		}{Until: time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)})
		return string(action), err
	})
	equalJSON(t, "params", `{"message":"When?","requestedSchema":{"type":"object","required":["from","until","step"],"properties":{
		"from":{"type":"string","format":"date-time"},"until":{"type":"string","format":"date-time","default":"2026-07-28T00:00:00Z"},
		"step":{"type":"integer","description":"a duration in nanoseconds"}}}}`, client.received["elicitation/create"][0])
}

// The fields of a form have the constraints of their tags. A value of the struct takes precedence
// over the tag default.
func TestElicitAppliesStructTags(t *testing.T) {
	type fields struct {
		Size  string   `json:"size" enum:"small,large" title:"Size" default:"large"`
		Wheel []string `json:"wheel" enum:"red,blue" minItems:"1" default:"red"`
		Seats *int     `json:"seats,omitempty" minimum:"1" maximum:"4"`
		Mail  string   `json:"mail,omitempty" format:"email" maxLength:"20" example:"a@b.c"`
		Lamps int      `json:"lamps" default:"2"`
		Trim  ruled    `json:"trim"`
	}
	for answer, want := range map[string]string{
		`{"size":"small","wheel":["blue"],"seats":2,"lamps":1,"trim":"a"}`: "accept small [blue] 2",
		`{"size":"tiny","wheel":["red"],"lamps":1,"trim":"a"}`:             server.ErrAnswer.Error() + ": size: must be one of small, large",
		`{"size":"small","wheel":[],"lamps":1,"trim":"a"}`:                 server.ErrAnswer.Error() + ": wheel: must have at least 1 of the options",
		`{"size":"small","wheel":["red"],"seats":5,"lamps":1,"trim":"a"}`:  server.ErrAnswer.Error() + ": seats: must be at most 4",
	} {
		client := respondWith(map[string]string{"elicitation/create": `{"action":"accept","content":` + answer + `}`})
		got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
			f := fields{Lamps: 3}
			action, err := server.Elicit(ctx, c, "Which?", &f)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(action, " ", f.Size, " ", f.Wheel, " ", *f.Seats), nil
		})
		if got != want {
			t.Errorf("%s: got %q, want %q", answer, got, want)
		}
		equalJSON(t, "params", `{"message":"Which?","requestedSchema":{"type":"object","required":["size","wheel","lamps","trim"],"properties":{
			"size":{"type":"string","enum":["small","large"],"title":"Size","default":"large"},
			"wheel":{"type":"array","items":{"type":"string","enum":["red","blue"]},"minItems":1,"default":["red"]},
			"seats":{"type":"integer","minimum":1,"maximum":4},"mail":{"type":"string","format":"email","maxLength":20},
			"lamps":{"type":"integer","default":3},"trim":{"type":"string","enum":["a","b"]}}}}`, client.received["elicitation/create"][0])
	}
	for _, tt := range []struct {
		elicit func(context.Context, *server.Call) error
		want   string
	}{
		{elicitStruct[struct {
			X int `multipleOf:"2"`
		}], `server: elicit: field "X": forms have no multipleOf`},
		{elicitStruct[struct {
			X int `enum:"1,2"`
		}], `server: elicit: field "X": the values of an enum in a form are strings, not of type integer`},
		{elicitStruct[struct {
			X string `format:"ipv4"`
		}], `server: elicit: field "X": forms have no format ipv4`},
		{elicitStruct[struct{ X []string }], `server: elicit: field "X": a list in a form must be of strings with the tag enum`},
		{elicitStruct[struct {
			X int `minimum:"a"`
		}], `field X: tag minimum:"a": want a number such as 1, got "a"`},
	} {
		got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`)}, func(ctx context.Context, c *server.Call) (string, error) {
			return "", tt.elicit(ctx, c)
		})
		if !strings.HasSuffix(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// Several calls share a list and a pointee as defaults.
func TestElicitDoesNotChangeSharedDefaults(t *testing.T) {
	type Seat struct {
		Row string `json:"row"`
	}
	type fields struct {
		*Seat
		Wheel []string `json:"wheel" enum:"red,blue"`
		Name  *string  `json:"name"`
		Note  *string  `json:"note,omitempty"`
	}
	defaults := fields{&Seat{"A"}, []string{"red"}, new("Ada"), new("-")}
	client := respondWith(map[string]string{"elicitation/create": `{"action":"accept","content":{"row":"B","wheel":["blue"],"name":"Eve"}}`})
	got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
		f := defaults
		_, err := server.Elicit(ctx, c, "?", &f)
		return fmt.Sprint(f.Row, f.Wheel, *f.Name, *f.Note), err
	})
	if got != "B[blue]Eve-" {
		t.Errorf("got %q", got)
	}
	if got := fmt.Sprint(defaults.Row, defaults.Wheel, *defaults.Name); got != "A[red]Ada" {
		t.Errorf("the defaults are %q", got)
	}
}

func elicitStruct[T any](ctx context.Context, c *server.Call) error {
	_, err := server.Elicit(ctx, c, "?", new(T))
	return err
}

const choices = `{"type":"object","properties":{
	"mail":{"type":"string","format":"email","default":"a@b.c"},
	"one":{"type":"string","enum":["r","g"],"default":"g"},
	"titled":{"type":"string","oneOf":[{"const":"r","title":"Red"}]},
	"many":{"type":"array","items":{"type":"string","enum":["r","g"]},"default":["r"]},
	"manyTitled":{"type":"array","items":{"anyOf":[{"const":"r","title":"Red"}]}},
	"old":{"type":"string","enum":["r"],"enumNames":["Red"]}}}`

// Proves ELIC-05, ELIC-17.
func TestElicitFormChecksChoices(t *testing.T) {
	for _, tt := range []struct{ content, want string }{
		{`{"one":"r","titled":"r","many":["r","g"],"manyTitled":["r"],"old":"r","mail":"x@y.z"}`, "accept"},
		{`{"one":"b"}`, "one: must be one of r, g"}, {`{"titled":"b"}`, "titled: must be one of r"}, {`{"many":["b"]}`, `many: "b" is not one of r, g`}, {`{"manyTitled":["b"]}`, `manyTitled: "b" is not one of r`}, {`{"many":"r"}`, "many: must be a list"},
	} {
		client := respondWith(map[string]string{"elicitation/create": `{"action":"accept","content":` + tt.content + `}`})
		got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{"form":{},"url":{}}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
			params := &mcp.ElicitRequestFormParams{Message: "Choose."}
			if err := codec.Unmarshal([]byte(choices), &params.RequestedSchema); err != nil {
				return "", err
			}
			result, err := c.ElicitForm(ctx, params)
			if err != nil {
				return "", err
			}
			return string(result.Action), nil
		})
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.content, got, tt.want)
		}
		equalJSON(t, "params", `{"message":"Choose.","requestedSchema":`+choices+`}`, client.received["elicitation/create"][0])
	}
}

// Proves ELIC-02, ELIC-03, SAMP-03, SAMP-04, ROOT-04.
func TestInputRequestsNeedDeclaredCapabilities(t *testing.T) {
	form := func(ctx context.Context, c *server.Call) (string, error) {
		_, err := server.Elicit(ctx, c, "?", &person{})
		return "asked", err
	}
	page := func(ctx context.Context, c *server.Call) (string, error) {
		_, err := c.ElicitURL(ctx, "?", "https://example.com/", "")
		return "asked", err
	}
	required := func(ctx context.Context, c *server.Call) (string, error) {
		return "asked", c.RequireURL(ctx, "?", "https://example.com/", "")
	}
	nested := func(ctx context.Context, c *server.Call) (string, error) {
		_, err := server.Elicit(ctx, c, "?", &struct{ P person }{})
		return "asked", err
	}
	sample := func(change func(*mcp.CreateMessageRequestParams)) func(ctx context.Context, c *server.Call) (string, error) {
		return func(ctx context.Context, c *server.Call) (string, error) {
			params := &mcp.CreateMessageRequestParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "x"}}}}}}
			change(params)
			_, err := c.Sample(ctx, params)
			return "asked", err
		}
	}
	plain := sample(func(*mcp.CreateMessageRequestParams) {})
	tools := sample(func(p *mcp.CreateMessageRequestParams) { p.Tools = []mcp.Tool{} })
	choice := sample(func(p *mcp.CreateMessageRequestParams) { p.ToolChoice = new(mcp.ToolChoice) })
	all := sample(func(p *mcp.CreateMessageRequestParams) {
		p.IncludeContext = new(mcp.IncludeContextAllServers)
	})
	roots := func(ctx context.Context, c *server.Call) (string, error) {
		_, err := c.Roots(ctx)
		return "asked", err
	}
	for _, tt := range []struct {
		name, capabilities string
		send               func(context.Context, *server.Call) (string, error)
		want               string
	}{
		{"form, none", `{}`, form, "elicitation.form"},
		{"form, url only", `{"elicitation":{"url":{}}}`, form, "elicitation.form"},
		{"form, empty", `{"elicitation":{}}`, form, ""},
		{"url, none", `{}`, page, "elicitation.url"},
		{"url, empty", `{"elicitation":{}}`, page, "elicitation.url"},
		{"url, form only", `{"elicitation":{"form":{}}}`, page, "elicitation.url"},
		{"url", `{"elicitation":{"url":{}}}`, page, ""},
		{"url required, form only", `{"elicitation":{"form":{}}}`, required, "elicitation.url"},
		{"nested form", `{"elicitation":{}}`, nested, "invalid form"},
		{"sampling, none", `{}`, plain, "sampling"},
		{"sampling", `{"sampling":{}}`, plain, ""},
		{"tools", `{"sampling":{}}`, tools, "sampling.tools"},
		{"tool choice", `{"sampling":{}}`, choice, "sampling.tools"},
		{"tools declared", `{"sampling":{"tools":{}}}`, tools, ""},
		{"context", `{"sampling":{}}`, all, "sampling.context"},
		{"context declared", `{"sampling":{"context":{}}}`, all, ""},
		{"roots, none", `{}`, roots, "roots"},
		{"roots", `{"roots":{}}`, roots, ""},
	} {
		client := respondWith(nil)
		got := callTool(t, clientConfig{capabilities: clientCapabilities(t, tt.capabilities), handler: client.serve}, tt.send)
		if sent := len(client.received) > 0; sent != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: sent %v: %s, want %q", tt.name, client.received, got, tt.want)
		}
	}
}

// Proves ELIC-07, ELIC-09, ELIC-16, ELIC-18, SDK-15.
func TestElicitURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{Session: session.Options{Principal: "ada"}})
		server.AddTool(s, "visit", "", func(ctx context.Context, c *server.Call, in struct{ Page, ID string }) (string, error) {
			action, err := c.ElicitURL(ctx, "Log in.", in.Page, in.ID)
			return string(action), err
		})
		accepts := respondWith(map[string]string{"elicitation/create": `{"action":"accept"}`})
		c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{"url":{}}}`), handler: accepts.serve})
		other := connect(t, s, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{"url":{}}}`), handler: respondWith(map[string]string{"elicitation/create": `{"action":"decline"}`}).serve})
		c.expect("tools/call", `{"name":"visit","arguments":{"Page":"https://example.com/login","ID":"one"}}`, `{"content":[{"type":"text","text":"accept"}]}`)
		equalJSON(t, "params", `{"mode":"url","message":"Log in.","url":"https://example.com/login","elicitationId":"one"}`, accepts.received["elicitation/create"][0])
		if principal, ok := s.ElicitationPrincipal("one"); !ok || principal != "ada" {
			t.Errorf("got principal %q, %v", principal, ok)
		}
		for _, bad := range []string{`"Page":"https://example.com/","ID":"one"`, `"Page":"http://example.com/","ID":""`, `"Page":"javascript:x","ID":""`, `"Page":"http://127.0.0.1.evil.example/","ID":""`, `"Page":"http://127.evil.example/","ID":""`, `"Page":"/login","ID":""`, `"Page":"https://u:p@example.com/","ID":""`} {
			if result, _ := c.call("tools/call", `{"name":"visit","arguments":{`+bad+`}}`); !strings.Contains(result, `"isError":true`) {
				t.Errorf("%s: %s", bad, result)
			}
		}
		if result, _ := other.call("tools/call", `{"name":"visit","arguments":{"Page":"https://example.com/","ID":"one"}}`); !strings.Contains(result, `"isError":true`) {
			t.Errorf("the id of an elicitation of another client: %s", result)
		}
		other.expect("tools/call", `{"name":"visit","arguments":{"Page":"http://localhost:8080/","ID":"two"}}`, `{"content":[{"type":"text","text":"decline"}]}`)
		c.expect("tools/call", `{"name":"visit","arguments":{"Page":"http://LOCALHOST/","ID":""}}`, `{"content":[{"type":"text","text":"accept"}]}`)
		c.expect("tools/call", `{"name":"visit","arguments":{"Page":"http://[::1]:80/","ID":""}}`, `{"content":[{"type":"text","text":"accept"}]}`)
		c.expect("tools/call", `{"name":"visit","arguments":{"Page":"http://127.0.0.1/","ID":""}}`, `{"content":[{"type":"text","text":"accept"}]}`)
		for _, id := range []string{"one", "one", "two", "three"} {
			if err := s.ElicitationComplete(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{`{"elicitationId":"one"}`}, c.notifications("notifications/elicitation/complete")); diff != "" {
			t.Errorf("notifications (-want +got):\n%s", diff)
		}
		if got := other.notifications("notifications/elicitation/complete"); got != nil {
			t.Errorf("notifications to another client: %v", got)
		}
		if _, ok := s.ElicitationPrincipal("one"); ok {
			t.Error("the elicitation is still open")
		}
	})
}

// Proves ELIC-13.
func TestElicitFormRejectsSecretFields(t *testing.T) {
	for name, secret := range map[string]bool{
		"password": true, "userPassword": true, "user_passwd": true, "DB SECRET": true, "credentials": true, "pass-phrase": false, "passphrase2": true,
		"apiKey": true, "api_key": true, "API-KEY": true, "APIKey": true, "apikey": true, "access_token": true, "accessToken": true, "token": true,
		"ACCESS_TOKEN": true, "cardNumber": true, "card number": true, "creditCard": true, "cvv": true, "CVV2": true, "pin": true, "newPin": true,
		"pin2": true, "pinCode": true, "pwd": true, "db_pwd": true, "yourTokenAgain": true, "stripeSecretKey": true, "sessionTokenValue": true,
		"tokenCount": false, "maxTokens": false, "pinned": false, "mapPin": false, "pinColor": false, "apiKeyName": false, "key": false, "primaryKey": false,
		"spin": false, "tokenizer": false, "cardNumberFormat": false, "discard": false, "keyboard": false, "monkey": false, "shopping": false,
		"secretary": false, "name": false, "passwordless": false, "compass": false,
	} {
		client := respondWith(map[string]string{"elicitation/create": `{"action":"decline"}`})
		got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
			_, err := c.ElicitForm(ctx, &mcp.ElicitRequestFormParams{Message: "?", RequestedSchema: mcp.ElicitRequestFormParamsRequestedSchema{
				Properties: map[string]mcp.PrimitiveSchemaDefinition{name: new(mcp.StringSchema)},
			}})
			return "asked", err
		})
		if (got != "asked") != secret || len(client.received) > 0 == secret {
			t.Errorf("%s: got %q", name, got)
		}
	}
	client := respondWith(nil)
	got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
		_, err := c.ElicitForm(ctx, &mcp.ElicitRequestFormParams{Message: "?", RequestedSchema: mcp.ElicitRequestFormParamsRequestedSchema{
			Properties: map[string]mcp.PrimitiveSchemaDefinition{"x": &mcp.StringSchema{Format: new(mcp.StringSchemaFormat("password"))}},
		}})
		return "asked", err
	})
	if len(client.received) > 0 || !strings.Contains(got, "format") {
		t.Errorf("a field for passwords: got %q", got)
	}
}

// The client receives no URL with credentials, and content in its response is ignored.
//
// Proves ELIC-19.
func TestElicitURLKeepsCredentialsFromClient(t *testing.T) {
	client := respondWith(map[string]string{"elicitation/create": `{"action":"accept","content":{"token":"stolen"}}`})
	got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{"url":{}}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
		for _, page := range []string{"https://user:secret@example.com/", "https://token@example.com/"} {
			if _, err := c.ElicitURL(ctx, "Log in.", page, ""); err == nil {
				t.Errorf("ElicitURL accepts %s", page)
			}
			if err := c.RequireURL(ctx, "Log in.", page, ""); errors.As(err, new(*jsonrpc.Error)) {
				t.Errorf("RequireURL accepts %s", page)
			}
		}
		action, err := c.ElicitURL(ctx, "Log in.", "https://example.com/login", "one")
		return string(action), err
	})
	if got != "accept" {
		t.Errorf("got %q", got)
	}
	if len(client.received["elicitation/create"]) != 1 {
		t.Fatalf("the client received %v, want one elicitation", client.received)
	}
	equalJSON(t, "params", `{"mode":"url","message":"Log in.","url":"https://example.com/login","elicitationId":"one"}`, client.received["elicitation/create"][0])
}

// Proves ELIC-11, ELIC-18, SDK-15.
func TestRequireURL(t *testing.T) {
	s := newServer(t, server.Options{Session: session.Options{Principal: "ada"}})
	server.AddTool(s, "files", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		return "", c.RequireURL(ctx, "Log in.", "https://example.com/login", "one")
	})
	c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{"url":{}}}`)})
	_, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"files"}`))
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || wire.Code != -32042 {
		t.Fatalf("got %v, want code -32042", err)
	}
	equalJSON(t, "data", `{"elicitations":[{"mode":"url","message":"Log in.","url":"https://example.com/login","elicitationId":"one"}]}`, string(wire.Data))
	if principal, ok := s.ElicitationPrincipal("one"); !ok || principal != "ada" {
		t.Errorf("got principal %q, %v", principal, ok)
	}
}

// Proves SAMP-02, SDK-06.
func TestSample(t *testing.T) {
	for _, answer := range []string{
		`{"role":"assistant","model":"m","content":{"type":"text","text":"four"}}`,
		`{"role":"assistant","model":"m","content":[{"type":"text","text":"four"},{"type":"image","data":"aQ==","mimeType":"image/png"},{"type":"audio","data":"aQ==","mimeType":"audio/wav"}]}`,
	} {
		client := respondWith(map[string]string{"sampling/createMessage": answer})
		got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"sampling":{}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
			result, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{
				{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "2+2?"}}}},
			}})
			if err != nil {
				return "", err
			}
			return result.Content.Items[0].(*mcp.TextContent).Text, nil
		})
		if got != "four" {
			t.Errorf("got %q", got)
		}
		equalJSON(t, "request", `{"maxTokens":10,"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}]}`, client.received["sampling/createMessage"][0])
	}
	for _, answer := range []string{
		`{"role":"assistant","content":{"type":"text","text":"four"}}`,
		`{"role":"assistant","model":"m"}`,
		`{"model":"m","content":{"type":"text","text":"four"}}`,
		`{"role":"robot","model":"m","content":{"type":"text","text":"four"}}`,
		`{"role":"assistant","model":"m","content":{"type":"text"}}`,
	} {
		client := respondWith(map[string]string{"sampling/createMessage": answer})
		got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"sampling":{}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
			_, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 10})
			return fmt.Sprint(err != nil), nil
		})
		if got != "true" {
			t.Errorf("%s: no error: %s", answer, got)
		}
	}
}

// If the client does not respond, the call fails and the server cancels the request.
//
// Proves LIFE-18.
func TestInputRequestsTimeOut(t *testing.T) {
	for name, send := range map[string]func(context.Context, *server.Call) error{
		"sampling": func(ctx context.Context, c *server.Call) error {
			_, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 1})
			return err
		},
		"form": func(ctx context.Context, c *server.Call) error {
			_, err := c.ElicitForm(ctx, &mcp.ElicitRequestFormParams{})
			return err
		},
		"page": func(ctx context.Context, c *server.Call) error {
			_, err := c.ElicitURL(ctx, "", "https://example.com/", "")
			return err
		},
		"roots": func(ctx context.Context, c *server.Call) error {
			_, err := c.Roots(ctx)
			return err
		},
	} {
		for _, tt := range []struct{ limit, want time.Duration }{{0, boundary.DefaultInputTimeout}, {time.Second, time.Second}, {-1, time.Hour}} {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, server.Options{Limits: server.Limits{InputTimeout: tt.limit}})
				var err error
				server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
					ctx, cancel := context.WithTimeout(ctx, time.Hour)
					defer cancel()
					err = send(ctx, c)
					return "", nil
				})
				cancelled := false
				c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, `{"sampling":{},"roots":{},"elicitation":{"form":{},"url":{}}}`), handler: func(ctx context.Context, _ *session.Request) (codec.Encoder, error) {
					<-ctx.Done()
					cancelled = true
					return nil, ctx.Err()
				}})
				start := time.Now()
				if _, callErr := c.With(session.Timeout(0)).Call(t.Context(), "tools/call", session.Raw(`{"name":"ask"}`)); callErr != nil {
					t.Error(callErr)
				}
				synctest.Wait()
				if took := time.Since(start); took != tt.want || !errors.Is(err, context.DeadlineExceeded) || !cancelled {
					t.Errorf("%s, limit %v: got %v after %v, want a timeout after %v; cancelled at the client: %v", name, tt.limit, err, took, tt.want, cancelled)
				}
			})
		}
	}
}

// Proves SAMP-10.
func TestSampleLimitsToolRounds(t *testing.T) {
	s := newServer(t, server.Options{Limits: server.Limits{ToolRounds: 3}})
	text := func(role mcp.Role, blocks ...mcp.SamplingMessageContentBlock) mcp.SamplingMessage {
		return mcp.SamplingMessage{Role: role, Content: mcp.SamplingContent{Items: blocks}}
	}
	rounds := 0
	server.AddTool(s, "loop", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		params := &mcp.CreateMessageRequestParams{MaxTokens: 1, Tools: []mcp.Tool{{Name: "x"}}, Messages: []mcp.SamplingMessage{text(mcp.RoleUser, &mcp.TextContent{Text: "go"})}}
		for range 10 {
			result, err := c.Sample(ctx, params)
			if err != nil {
				return "", err
			}
			rounds++
			params.Messages = append(params.Messages, text(mcp.RoleAssistant, result.Content.Items...), text(mcp.RoleUser, &mcp.ToolResultContent{ToolUseID: "1", Content: []mcp.ContentBlock{}}))
		}
		return "no limit", nil
	})
	client := respondWith(map[string]string{"sampling/createMessage": `{"role":"assistant","model":"m","stopReason":"toolUse","content":{"type":"tool_use","id":"1","name":"x","input":{}}}`})
	c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, `{"sampling":{"tools":{}}}`), handler: client.serve})
	result, _ := c.call("tools/call", `{"name":"loop"}`)
	if want := "server: too many rounds of tool calls: the limit is 3"; !strings.Contains(result, want) || rounds != 4 {
		t.Errorf("after %d messages: got %s, want %q", rounds, result, want)
	}
}

// The server requests roots once, until the client announces a change.
//
// Proves ROOT-07.
func TestRootsAreCachedUntilTheyChange(t *testing.T) {
	for _, announced := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{})
			server.AddTool(s, "roots", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				roots, err := c.Roots(ctx)
				if err == nil && len(roots) == 1 {
					defer func() { roots[0].URI = "file:///changed/by/the/tool" }()
					return roots[0].URI, nil
				}
				return "", err
			})
			client := respondWith(map[string]string{"roots/list": `{"roots":[{"uri":"file:///a"}]}`})
			c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, fmt.Sprintf(`{"roots":{"listChanged":%v}}`, announced)), handler: client.serve})
			check := func(want string, requests int) {
				t.Helper()
				result, _ := c.call("tools/call", `{"name":"roots"}`)
				if got := text(t, result); got != want || announced && len(client.received["roots/list"]) != requests {
					t.Errorf("got %s after %d requests, want %s after %d", got, len(client.received["roots/list"]), want, requests)
				}
			}
			check("file:///a", 1)
			check("file:///a", 1)
			client.results["roots/list"] = `{"roots":[{"uri":"file:///b"}]}`
			if announced {
				if err := c.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			check("file:///b", 2)
			check("file:///b", 2)
		})
	}
}

// Proves SAMP-05, SAMP-06, M-SAMP-02.
func TestSampleChecksToolCallsAndResults(t *testing.T) {
	const use, result, words = `{"type":"tool_use","id":"1","name":"x","input":{}}`, `{"type":"tool_result","toolUseId":"1","content":[]}`, `{"type":"text","text":"t"}`
	user := func(content string) string { return `{"role":"user","content":` + content + `}` }
	assistant := func(content string) string { return `{"role":"assistant","content":` + content + `}` }
	for _, tt := range []struct {
		messages string
		valid    bool
	}{
		{user(words), true},
		{user(words) + "," + assistant(use) + "," + user(result), true},
		{user(words) + "," + assistant("["+words+","+use+"]") + "," + user("["+result+"]") + "," + assistant(words), true},
		{user(words) + "," + assistant(use) + "," + user("["+result+","+words+"]"), false},
		{user(words) + "," + assistant(use) + "," + user(words), false},
		{user(words) + "," + assistant(use), false},
		{user(words) + "," + assistant(use) + "," + user(words) + "," + user(result), false},
		{user(result), false},
		{user(use) + "," + user(result), false},
		{user(words) + "," + assistant(use) + "," + assistant(result), false},
		{user(words) + "," + assistant(use) + "," + user("["+result+","+result+"]"), false},
		{user(words) + "," + assistant("["+use+","+strings.Replace(use, "1", "2", 1)+"]") + "," + user(result), false},
		{user(words) + "," + assistant("["+use+","+use+"]") + "," + user(result), false},
	} {
		client := respondWith(map[string]string{"sampling/createMessage": `{"role":"assistant","model":"m","content":` + words + `}`})
		sample := func(ctx context.Context, c *server.Call) (string, error) {
			params := new(mcp.CreateMessageRequestParams)
			if err := codec.Unmarshal([]byte(`{"maxTokens":10,"messages":[`+tt.messages+`]}`), params); err != nil {
				return "", err
			}
			_, err := c.Sample(ctx, params)
			return "", err
		}
		callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"sampling":{}}`), handler: client.serve}, sample)
		if sent := len(client.received) > 0; sent != tt.valid {
			t.Errorf("%s: sent %v", tt.messages, sent)
		}
		s := newServer(t, server.Options{})
		addTool(s, sample)
		if got := connectRounds(t, s).round("tools/call", do, nil, nil); (got.state != "") != tt.valid {
			t.Errorf("%s: input requests %v, result %s", tt.messages, got.methods, got.text)
		}
	}
}

func TestSampleRejectsNilContent(t *testing.T) {
	for _, block := range []mcp.SamplingMessageContentBlock{nil, (*mcp.TextContent)(nil), (*mcp.ToolUseContent)(nil), (*mcp.ToolResultContent)(nil)} {
		client := respondWith(nil)
		got := callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"sampling":{}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
			_, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{block}}}}})
			return "", err
		})
		if len(client.received) > 0 || got != "server: sample: invalid conversation: message 0: nil content" {
			t.Errorf("%T: got %q", block, got)
		}
	}
}

// Proves ROOT-04.
func TestInsideAcceptsOnlyPathsInRoots(t *testing.T) {
	folder := must(filepath.EvalSymlinks(t.TempDir()))
	for _, d := range []string{"in/side", "in side", "inner"} {
		if err := os.MkdirAll(filepath.Join(folder, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"in/up": folder, "in/down": filepath.Join(folder, "in/side"), "in/etc": "/etc"} {
		if err := os.Symlink(to, filepath.Join(folder, link)); err != nil {
			t.Skip(err)
		}
	}
	client := respondWith(map[string]string{"roots/list": `{"roots":[{"uri":"file:///does/not/exist"},{"uri":"https://example.com/"},{"uri":"file://` + folder + `/in"},{"uri":"file://` + folder + `/in%20side"}]}`})
	callTool(t, clientConfig{capabilities: clientCapabilities(t, `{"roots":{}}`), handler: client.serve}, func(ctx context.Context, c *server.Call) (string, error) {
		roots, err := c.Roots(ctx)
		if err != nil {
			t.Error(err)
		}
		for path, want := range map[string]string{
			"in": "in", "in/side": "in/side", "in/down": "in/side", "in side": "in side", "in/side/../side": "in/side",
			"in/..": "", "in/../inner": "", "inner": "", "in/up": "", "in/up/inner": "", "in/etc": "", "in/etc/passwd": "", ".": "", "in/nothing": "",
		} {
			got, err := server.Inside(roots, filepath.Join(folder, ".")+"/"+path)
			if want == "" && err == nil || want != "" && (err != nil || got != filepath.Join(folder, want)) {
				t.Errorf("%s: got %q, %v, want %q", path, got, err, want)
			}
		}
		return "", nil
	})
}

// Proves SDK-06, META-01.
func TestProgressAndUnknownMeta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		server.AddTool(s, "slow", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			for i := range 3 {
				if err := c.Progress(float64(i+1), 3, "step"); err != nil {
					return "", err
				}
				time.Sleep(time.Second)
			}
			if err := c.Progress(1, 0, ""); !errors.Is(err, session.ErrNotIncreasing) {
				return "", err
			}
			_, isTask := c.Task()
			return fmt.Sprint(isTask, c.Principal(), c.Session() != nil, c.Server() == s), nil
		})
		c := connect(t, s, clientConfig{})
		var got []string
		caller := c.With(session.OnProgress(func(p session.Progress) { got = append(got, fmt.Sprint(p.Value, " of ", *p.Total, " ", p.Message)) }))
		result := must(caller.Call(t.Context(), "tools/call", session.Raw(`{"name":"slow","_meta":{"x/y":1,"io.modelcontextprotocol/related-task":7,"mcp.dev/z":[null]}}`)))
		if text(t, string(result)) != "falsetrue true" {
			t.Errorf("got %s", result)
		}
		if diff := cmp.Diff([]string{"1 of 3 step", "2 of 3 step", "3 of 3 step"}, got); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
	})
}

// Proves SDK-14.
func TestConfigMethodsTakePrecedence(t *testing.T) {
	received := make(chan string, 1)
	s := newServer(t, server.Options{
		Features: server.Features{Methods: map[string]session.Handler{
			"example/echo": func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				return session.Raw(req.Params), nil
			},
			"tools/list": func(context.Context, *session.Request) (codec.Encoder, error) {
				return session.Raw(`{"tools":[]}`), nil
			},
			"example/noticed": func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				received <- string(req.Params)
				return nil, nil
			},
		}},
		Session: session.Options{
			Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				if req.Method != "example/rest" {
					return nil, jsonrpc.MethodNotFound(req.Method)
				}
				return session.Raw(`{"rest":true}`), nil
			},
			Hooks: session.Hooks{Receiving: []session.Middleware{func(next session.Handler) session.Handler {
				return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
					if req.Method == "example/rejected" {
						return nil, &jsonrpc.Error{Code: -9, Message: "no"}
					}
					return next(ctx, req)
				}
			}}},
		},
	})
	server.AddPrompt(s, "p", "", func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil })
	c := connect(t, s, clientConfig{})
	c.expect("example/echo", `{"a":1}`, `{"a":1}`)
	c.expect("tools/list", ``, `{"tools":[]}`)
	c.expect("prompts/list", ``, `{"prompts":[{"name":"p"}]}`)
	c.expect("example/rest", ``, `{"rest":true}`)
	c.expectError("example/rejected", ``, -9)
	c.expectError("example/unknown", ``, jsonrpc.CodeMethodNotFound)
	if err := c.Notify(t.Context(), "example/noticed", session.Raw(`{"b":2}`)); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != `{"b":2}` {
		t.Errorf("the notification had %s", got)
	}
}

// Clients in Go send null for a nil map.
func TestNullArgumentsCountAsAbsent(t *testing.T) {
	s := newServer(t, server.Options{})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) { return askName(ctx, c, "Who?") })
	server.AddPrompt(s, "p", "", func(_ context.Context, _ *server.Call, args map[string]string) (string, error) {
		return fmt.Sprint(args), nil
	})
	const call, get = `{"name":"do","arguments":null}`, `{"name":"p","arguments":null}`
	c := connectRounds(t, s)
	last, rounds := c.finish("tools/call", call, respondToAll)
	equal(t, "tool", "accept Ada", last.text)
	equal(t, "rounds", 2, rounds)
	if result, err := c.send("prompts/get", get, nil); err != nil {
		t.Errorf("prompt: %v, %v", result, err)
	}
	old := connect(t, s, clientConfig{})
	old.expect("prompts/get", get, `{"messages":[{"role":"user","content":{"type":"text","text":"map[]"}}]}`)
	old.expectError("tools/call", `{"name":"do","arguments":[]}`, jsonrpc.CodeInvalidParams)
	old.expectError("tools/call", `{"name":"do","arguments":null,"_meta":[]}`, jsonrpc.CodeInvalidParams)
}

package partial_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/experimental/partial"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// connect returns a client of a server that answers requests with a script, one step each, and
// records ids and params.
func connect(t *testing.T, script ...any) (*session.Session, func() (params, ids []string)) {
	var ids, params []string
	c, _ := sessiontest.Pair(t, sessiontest.Side{}, sessiontest.Side{
		Server: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools)},
		Config: session.Options{Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() {
				return nil, nil
			}
			ids, params = append(ids, req.ID.String()), append(params, req.Method+" "+string(req.Params))
			step := script[0]
			script = script[1:]
			if err, ok := step.(error); ok {
				return nil, err
			}
			return session.Raw(step.(string)), nil
		}},
	})
	return c, func() ([]string, []string) { return params, ids }
}

// odd is a token with unusual characters, as JSON.
const odd = `" \"ä\u0000/{\n"`

func parts(t *testing.T, o *partial.Operation) (list []string) {
	t.Helper()
	for part, err := range o.Parts(t.Context()) {
		if err != nil {
			list = append(list, fmt.Sprint(jsonrpc.CodeOf(err)))
		} else {
			list = append(list, string(part))
		}
	}
	return list
}

// Proves RESUME-03, RESUME-09, RESUME-11, RESUME-13, RESUME-14.
func TestOperationEndsWithPartWithoutToken(t *testing.T) {
	one, two, three := `{"content":[1],"nextResumeToken":`+odd+`}`, `{"content":[2],"nextResumeToken":""}`, `{"content":[3]}`
	c, got := connect(t, one, two, three)
	o, err := partial.Start(c, "tools/call", session.Raw(`{"_meta":{"x/y":1},"arguments":{"a":1},"name":"long","later":[null]}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{one, two, three}, parts(t, o)); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	params, ids := got()
	want := []string{
		`tools/call {"_meta":{"x/y":1},"arguments":{"a":1},"name":"long","later":[null]}`,
		`tools/call {"_meta":{"x/y":1},"arguments":{"a":1},"name":"long","later":[null],"resumeToken":` + odd + `}`,
		`tools/call {"_meta":{"x/y":1},"arguments":{"a":1},"name":"long","later":[null],"resumeToken":""}`,
	}
	if diff := cmp.Diff(want, params); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != 3 {
		t.Errorf("%d different ids", n)
	}
}

// Proves RESUME-10.
func TestTokenOfEndedOperationIsNotSent(t *testing.T) {
	for name, last := range map[string]any{
		"the last part":     `{}`,
		"an error":          &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "broken"},
		"an expired token":  &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "expired"},
		"a failure of tool": `{"isError":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			c, got := connect(t, `{"nextResumeToken":"t"}`, last)
			o, err := partial.Start(c, "x/long", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := o.Token(); ok {
				t.Error("there is a token before there is one")
			}
			if list := parts(t, o); len(list) != 2 {
				t.Errorf("got the parts %q", list)
			}
			for range 2 {
				if _, err := o.Next(t.Context()); err != partial.ErrEnded {
					t.Errorf("got %v", err)
				}
			}
			if token, ok := o.Token(); ok {
				t.Errorf("there is a token still: %q", token)
			}
			params, _ := got()
			if diff := cmp.Diff([]string{`x/long {}`, `x/long {"resumeToken":"t"}`}, params); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A stored token may have expired.
func TestRejectedTokenIsNotSentAgain(t *testing.T) {
	c, got := connect(t, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "expired"})
	o, err := partial.Continue(c, "x/long", session.Raw(`{}`), "old")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"-32602"}, parts(t, o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := parts(t, o); got != nil {
		t.Errorf("after a refusal: %q", got)
	}
	if token, ok := o.Token(); ok {
		t.Errorf("there is a token still: %q", token)
	}
	params, _ := got()
	if diff := cmp.Diff([]string{`x/long {"resumeToken":"old"}`}, params); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Proves RESUME-14.
func TestOperationContinuesAfterReconnect(t *testing.T) {
	c, _ := connect(t, `{"nextResumeToken":"t"}`)
	o, err := partial.Start(c, "x/long", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := o.Next(t.Context()); !errors.Is(err, session.ErrClosed) {
		t.Errorf("got %v", err)
	}
	token, ok := o.Token()
	if !ok || token != "t" {
		t.Fatalf("the token is %q, %v", token, ok)
	}
	c, _ = connect(t, `{"end":true}`)
	o, err = partial.Continue(c, "x/long", nil, token)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`{"end":true}`}, parts(t, o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOperationSurvivesOverloadedServer(t *testing.T) {
	for _, code := range []int64{session.CodeOverloaded, session.CodeClosing, -31050, -31051} {
		c, _ := connect(t, `{"nextResumeToken":"t"}`, &jsonrpc.Error{Code: code, Message: "later"}, `{"end":true}`)
		o, err := partial.Start(c, "x/long", nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{`{"nextResumeToken":"t"}`, fmt.Sprint(code)}, parts(t, o)); diff != "" {
			t.Errorf("%d (-want +got):\n%s", code, diff)
		}
		if diff := cmp.Diff([]string{`{"end":true}`}, parts(t, o)); diff != "" {
			t.Errorf("%d: after that (-want +got):\n%s", code, diff)
		}
	}
}

func TestStartRejectsInvalidParams(t *testing.T) {
	c, _ := connect(t, `{"nextResumeToken":1}`)
	for _, params := range []string{`[]`, `{"resumeToken":"t"}`} {
		if _, err := partial.Start(c, "x/long", session.Raw(params)); err == nil {
			t.Errorf("%s are params", params)
		}
	}
	o, err := partial.Start(c, "x/long", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Next(t.Context()); err == nil {
		t.Error("a number is a token")
	}
}

func TestTokenOf(t *testing.T) {
	for _, test := range []struct {
		result, want string
		ok, fails    bool
	}{
		{`{"content":[],"nextResumeToken":"t"}`, "t", true, false},
		{`{"content":[{"type":"text","text":"a","nextResumeToken":"t"}]}`, "", false, false},
		{`{"content":[],"nextResumeToken":7}`, "", false, true},
	} {
		result := new(mcp.CallToolResult)
		if err := codec.Unmarshal([]byte(test.result), result); err != nil {
			t.Fatal(err)
		}
		if token, ok, err := partial.TokenOf(result); token != test.want || ok != test.ok || err != nil != test.fails {
			t.Errorf("%s: got %q, %v, %v", test.result, token, ok, err)
		}
	}
}

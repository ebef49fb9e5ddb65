package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

func number(text codec.Number) ID {
	id, err := codec.NumberScalar(text)
	if err != nil {
		panic(err)
	}
	return id
}

func extra(pairs ...string) (x wire.Extra) {
	for i := 0; i < len(pairs); i += 2 {
		x.Set(pairs[i], json.RawMessage(pairs[i+1]))
	}
	return x
}

func TestMessageSurvivesRoundTrip(t *testing.T) {
	one, object := codec.IntScalar(1), json.RawMessage(`{}`)
	for _, c := range []struct {
		name, text string
		want       Message
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, NewRequest(one, "ping", nil)},
		{"request with params", `{"jsonrpc":"2.0","id":"a","method":"m","params":{"x": [1.0]}}`, NewRequest(codec.StringScalar("a"), "m", json.RawMessage(`{"x": [1.0]}`))},
		{"request with empty params", `{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, NewRequest(one, "m", object)},
		{"request with an empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, NewRequest(one, "", nil)},
		{"notification", `{"jsonrpc":"2.0","method":"n"}`, NewNotification("n", nil)},
		{"notification with params", `{"jsonrpc":"2.0","method":"n\u00e9","params":{"id":1}}`, NewNotification("né", json.RawMessage(`{"id":1}`))},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{}}`, NewResponse(one, object)},
		{"response with a result", `{"jsonrpc":"2.0","id":"","result":{"error":{},"result":null}}`, NewResponse(codec.StringScalar(""), json.RawMessage(`{"error":{},"result":null}`))},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"m"}}`, NewErrorResponse(one, &Error{Code: -32600, Message: "m"})},
		{"error without id", `{"jsonrpc":"2.0","error":{"code":1,"message":""}}`, NewErrorResponse(ID{}, &Error{Code: 1})},
		{"error with null id", `{"jsonrpc":"2.0","error":{"code":1,"message":""},"id":null}`,
			Message{Kind: KindErrorResponse, Error: &Error{Code: 1}, Extra: extra("id", "null")}},
		{"error with data", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":[{"a":1}]}}`, NewErrorResponse(one, &Error{1, "m", json.RawMessage(`[{"a":1}]`), wire.Extra{}})},
		{"error with null data", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":null}}`, NewErrorResponse(one, &Error{1, "m", json.RawMessage(`null`), wire.Extra{}})},
		{"error with unknown members", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","type":"t","Code":null}}`, NewErrorResponse(one, &Error{1, "m", nil, extra("type", `"t"`, "Code", "null")})},
		{"unknown members", `{"jsonrpc":"2.0","id":1,"method":"m","x":{"y":[]},"ID":7,"":null}`, Message{Kind: KindRequest, ID: one, Method: "m", Extra: extra("x", `{"y":[]}`, "ID", "7", "", "null")}},
		{"response with params", `{"jsonrpc":"2.0","id":1,"result":{},"params":[1]}`, Message{Kind: KindResponse, ID: one, Result: object, Extra: extra("params", "[1]")}},
		{"error with params", `{"jsonrpc":"2.0","error":{"code":1,"message":""},"params":null}`, Message{Kind: KindErrorResponse, Error: &Error{Code: 1}, Extra: extra("params", "null")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			out, err := got.AppendJSON([]byte("x"))
			if want := "x" + strings.ReplaceAll(c.text, `\u00e9`, "é"); string(out) != want || err != nil {
				t.Errorf("wrote %s, %v", out, err)
			}
			var std Message
			if err := json.Unmarshal([]byte(c.text), &std); err != nil || cmp.Diff(c.want, std) != "" {
				t.Errorf("by encoding/json: %v, %v", std, err)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(strings.ReplaceAll(c.text, `\u00e9`, "é"))); err != nil {
				t.Fatal(err)
			}
			for _, v := range []any{std, &std} {
				if out, err := json.Marshal(v); err != nil || string(out) != compact.String() {
					t.Errorf("encoding/json wrote %s for a %T, %v", out, v, err)
				}
			}
		})
	}
}

// The order of members makes no difference.
func TestParseIgnoresOrderOfMembers(t *testing.T) {
	for _, members := range [][]string{
		{`"jsonrpc":"2.0"`, `"id":1`, `"method":"m"`, `"params":{}`, `"x":1`},
		{`"jsonrpc":"2.0"`, `"id":1`, `"result":{"a":1}`, `"params":3`},
		{`"jsonrpc":"2.0"`, `"id":null`, `"error":{"code":1,"message":"m"}`, `"x":null`},
	} {
		var want *Message
		permute(members, func(members []string) {
			text := " { " + strings.Join(members, " ,\n") + " } "
			got, err := Parse([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if want == nil {
				want = &got
			}
			if diff := cmp.Diff(*want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", text, diff)
			}
		})
	}
}

func permute(list []string, f func([]string)) {
	var rec func(n int)
	rec = func(n int) {
		if n == len(list) {
			f(list)
			return
		}
		for i := n; i < len(list); i++ {
			list[n], list[i] = list[i], list[n]
			rec(n + 1)
			list[n], list[i] = list[i], list[n]
		}
	}
	rec(0)
}

// refusal is an expected error: its sentinel, offset, pointer and code, and the parts of the
// message that are read nevertheless.
type refusal struct {
	err     error
	offset  int64
	pointer string
	code    int64
	kind    Kind
	id      ID
}

func (f refusal) check(t *testing.T, text string, m Message, err error) {
	t.Helper()
	var e *codec.Error
	if !errors.As(err, &e) || !errors.Is(err, f.err) {
		t.Fatalf("%s: got %v, want %v", text, err, f.err)
	}
	line := 1 + strings.Count(text[:e.Offset], "\n")
	column := int(e.Offset) - strings.LastIndexByte(text[:e.Offset], '\n')
	if e.Line != line || e.Column != column {
		t.Errorf("%s: at %d:%d, want %d:%d", text, e.Line, e.Column, line, column)
	}
	if got := (refusal{f.err, e.Offset, e.Pointer, CodeOf(err), m.Kind, m.ID}); got != f {
		t.Errorf("%s: %v\n got %+v\nwant %+v", text, err, got, f)
	}
}

var one = codec.IntScalar(1)

const (
	invalidRequest = CodeInvalidRequest
	parseError     = CodeParseError
)

// rules are the sentinels that hostile messages are refused with.
var rules = map[hostile.Rule]error{
	hostile.Syntax: codec.ErrSyntax, hostile.BOM: jsonfault.BOM, hostile.ControlChar: jsonfault.ControlChar,
	hostile.Escape: jsonfault.Escape, hostile.Number: jsonfault.Number, hostile.Literal: jsonfault.Literal, hostile.EOF: jsonfault.EOF,
	hostile.Trailing: jsonfault.Trailing, hostile.UTF8: jsonfault.UTF8, hostile.Surrogate: jsonfault.Surrogate,
	hostile.Duplicate: codec.ErrDuplicate,

	hostile.NoObject: jsonfault.NotObject, hostile.Version: jsonfault.Version, hostile.ID: jsonfault.ID, hostile.NoID: jsonfault.NoID, hostile.Method: jsonfault.Method,
	hostile.Params: jsonfault.Params, hostile.Positional: jsonfault.Positional, hostile.Result: jsonfault.Result, hostile.Error: jsonfault.Error,
	hostile.Both: jsonfault.Both, hostile.Mixed: jsonfault.Mixed, hostile.Neither: jsonfault.Neither, hostile.Batched: jsonfault.Batch,
	hostile.NoBatch: jsonfault.NoBatch, hostile.EmptyBatch: jsonfault.EmptyBatch, hostile.BatchSize: jsonfault.BatchSize,
}

// refusalOf returns the refusal that a hostile message must cause.
func refusalOf(t *testing.T, r hostile.Refusal, m Message) refusal {
	t.Helper()
	err, ok := rules[r.Rule]
	if !ok {
		t.Fatalf("no error for the rule %s", r.Rule)
	}
	return refusal{err, int64(r.Offset), r.Pointer, r.Rule.Code(), m.Kind, m.ID}
}

func TestParseHostileMessages(t *testing.T) {
	for _, c := range hostile.All(hostile.Messages()) {
		t.Run(c.Name, func(t *testing.T) {
			m, err := Parse([]byte(c.Text))
			if m.Kind.String() != string(c.Kind) || m.ID.String() != c.ID {
				t.Errorf("%s: read as %v with id %v, want %s and %s", c.Text, m.Kind, m.ID, c.Kind, c.ID)
			}
			if c.Rule != hostile.Taken {
				refusalOf(t, c.Refusal, m).check(t, c.Text, m, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			out, err := m.AppendJSON(nil)
			if err != nil || !sameJSON(t, []byte(c.Text), out) {
				t.Errorf("%s became %s, %v", c.Text, out, err)
			}
			again, err := Parse(out)
			if diff := cmp.Diff(m, again); err != nil || diff != "" {
				t.Errorf("written as %s and read again: %v (-want +got):\n%s", out, err, diff)
			}
		})
	}
}

func TestParseAppliesLimits(t *testing.T) {
	const text = `{"jsonrpc":"2.0","id":1,"method":"mm","params":{"a":[]}}`
	for _, c := range []struct {
		opt codec.Option
		refusal
	}{
		{codec.MaxDepth(2), refusal{jsonfault.Depth, 52, "/params/a", parseError, KindRequest, one}},
		{codec.MaxSize(20), refusal{jsonfault.Size, 20, "", parseError, 0, ID{}}},
		{codec.MaxString(6), refusal{jsonfault.StringSize, 1, "/jsonrpc", parseError, 0, ID{}}},
	} {
		m, err := Parse([]byte(text), c.opt)
		c.check(t, text, m, err)
	}
}

func TestAppendRejectsFieldsOfAnotherKind(t *testing.T) {
	object, bad := json.RawMessage(`{}`), &Error{Code: 1, Message: "m"}
	for name, c := range map[string]struct {
		m       Message
		err     error
		pointer string
	}{
		"zero":                          {Message{}, jsonfault.Neither, ""},
		"unknown kind":                  {Message{Kind: 9, ID: one}, jsonfault.Neither, ""},
		"request without id":            {NewRequest(ID{}, "m", nil), jsonfault.NoID, "/id"},
		"request with boolean id":       {NewRequest(codec.BoolScalar(true), "m", nil), jsonfault.ID, "/id"},
		"request with fractional id":    {NewRequest(number("1.5"), "m", nil), jsonfault.ID, "/id"},
		"id that is not UTF-8":          {NewRequest(codec.StringScalar("\xff"), "m", nil), jsonfault.UTF8, "/id"},
		"method that is not UTF-8":      {NewRequest(one, "\xff", nil), jsonfault.UTF8, "/method"},
		"request with array params":     {NewRequest(one, "m", json.RawMessage(`[]`)), nil, "/params"},
		"request with malformed params": {NewRequest(one, "m", json.RawMessage(`{"a":}`)), codec.ErrSyntax, "/params/a"},
		"request with result":           {Message{Kind: KindRequest, ID: one, Result: object}, jsonfault.Mixed, "/result"},
		"request with error":            {Message{Kind: KindRequest, ID: one, Error: bad}, jsonfault.Mixed, "/error"},
		"notification with id":          {Message{Kind: KindNotification, ID: one}, jsonfault.Mixed, "/id"},
		"response without id":           {NewResponse(ID{}, object), jsonfault.NoID, "/id"},
		"response without result":       {NewResponse(one, nil), codec.ErrNoValue, "/result"},
		"response with null":            {NewResponse(one, json.RawMessage("null")), nil, "/result"},
		"response with method":          {Message{Kind: KindResponse, ID: one, Result: object, Method: "m"}, jsonfault.Mixed, "/method"},
		"response with params":          {Message{Kind: KindResponse, ID: one, Result: object, Params: object}, jsonfault.Mixed, "/params"},
		"response with error":           {Message{Kind: KindResponse, ID: one, Result: object, Error: bad}, jsonfault.Mixed, "/error"},
		"params in two forms":           {Message{Kind: KindRequest, ID: one, Params: object, Payload: new(Error)}, jsonfault.Mixed, "/params"},
		"result in two forms":           {Message{Kind: KindResponse, ID: one, Result: object, Payload: new(Error)}, jsonfault.Mixed, "/result"},
		"error with payload":            {Message{Kind: KindErrorResponse, Error: bad, Payload: new(Error)}, jsonfault.Mixed, "/error"},
		"error without error":           {NewErrorResponse(one, nil), codec.ErrNoValue, "/error"},
		"error with result":             {Message{Kind: KindErrorResponse, Error: bad, Result: object}, jsonfault.Mixed, "/result"},
		"error with malformed data":     {NewErrorResponse(one, &Error{Data: json.RawMessage("tru")}), jsonfault.EOF, "/error/data"},
		"id in Extra":                   {Message{Kind: KindNotification, Extra: extra("id", "1")}, jsonfault.Mixed, "/id"},
		"null id of a request":          {Message{Kind: KindRequest, ID: one, Extra: extra("id", "null")}, jsonfault.Mixed, "/id"},
		"method in Extra":               {Message{Kind: KindResponse, ID: one, Result: object, Extra: extra("method", `"m"`)}, jsonfault.Mixed, "/method"},
		"result in Extra":               {Message{Kind: KindRequest, ID: one, Extra: extra("result", `{}`)}, jsonfault.Mixed, "/result"},
		"params in Extra":               {Message{Kind: KindRequest, ID: one, Extra: extra("params", `{}`)}, jsonfault.Mixed, "/params"},
		"malformed unknown member":      {Message{Kind: KindRequest, ID: one, Extra: extra("x", `{"a":tru}`)}, jsonfault.Literal, "/x/a"},
		"version in Extra":              {Message{Kind: KindRequest, ID: one, Extra: extra("jsonrpc", `"1.0"`)}, nil, "-"},
		"id of an error, twice":         {Message{Kind: KindErrorResponse, ID: one, Error: bad, Extra: extra("id", "null")}, nil, "-"},
		"an error response":             {NewErrorResponse(one, bad), nil, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := c.m.AppendJSON(nil)
			if c.pointer == "-" { // the text written is a valid message
				if _, err2 := Parse(out); err != nil || err2 != nil {
					t.Errorf("%s: %v, %v", out, err, err2)
				}
				return
			}
			var e *codec.Error
			if !errors.As(err, &e) || c.err != nil && !errors.Is(err, c.err) || e.Pointer != c.pointer || out != nil {
				t.Errorf("got %s, %v, want %v at %q", out, err, c.err, c.pointer)
			}
		})
	}
}

func TestErrorKeepsTextOfHugeCode(t *testing.T) {
	const text = `{"jsonrpc":"2.0","id":1,"error":{"code":-1e30,"message":"m"}}`
	m, err := Parse([]byte(text))
	if err != nil || m.Error.Code != -1<<63 {
		t.Fatalf("%+v, %v", m.Error, err)
	}
	if out, err := m.AppendJSON(nil); string(out) != text || err != nil {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestErrorDecodesOutsideMessage(t *testing.T) {
	var e Error
	err := codec.Unmarshal([]byte(`{"code":-32000,"message":"no","data":{},"x":1}`), &e)
	want := Error{-32000, "no", json.RawMessage(`{}`), extra("x", "1")}
	if diff := cmp.Diff(want, e); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]error{`null`: jsonfault.Error, `[]`: jsonfault.Error, `{}`: jsonfault.Error, `{"code":1}`: jsonfault.Error, `{"code":1.5,"message":"m"}`: jsonfault.Integer, ``: jsonfault.EOF, `x`: codec.ErrSyntax} {
		if err := codec.Unmarshal([]byte(text), &e); !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := codec.Marshal((*Error)(nil)); !errors.Is(err, codec.ErrNoValue) {
		t.Errorf("nil: %v", err)
	}
	if got, want := (&Error{Code: -32601, Message: "no such method"}).Error(), "jsonrpc: no such method (code -32601)"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestParseReceivedToleratesFaultsOfPeers(t *testing.T) {
	for _, c := range []struct {
		text, want string
		err        error
	}{
		{"\uFEFF" + `{"jsonrpc":"2.0","id":1.0,"method":"m"}`, "request 1.0 1", nil},
		{`{"jsonrpc":"2.0","id":"1","method":"m","params":null}`, `request "1" "1"`, nil},
		{`{"jsonrpc":"2.0","method":"m","params":null}`, "notification  ", nil},
		{`{"jsonrpc":"2.0","id":1e2}`, "response 1e2 100", jsonfault.Neither},
		{`{"jsonrpc":"2.0","id":1,"params":{}}`, "invalid 1 1", jsonfault.Neither},
		{`{"jsonrpc":"2.0","id":100000000000000000000}`, "response 100000000000000000000 100000000000000000000", jsonfault.Neither},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":[]}`, "request 1 1", jsonfault.Positional},
		{"\uFEFF\uFEFF{}", "invalid  ", jsonfault.BOM},
	} {
		m, err := ParseReceived([]byte(c.text))
		got := fmt.Sprint(m.Kind, " ", m.ID.String(), " ", CanonicalID(m.ID).String())
		if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || err == nil && m.Params != nil {
			t.Errorf("%s: got %s, %v", c.text, got, err)
		}
	}
}

func TestCodeOf(t *testing.T) {
	_, unwritable := codec.Marshal(codec.StringScalar("\xff"))
	_, incomplete := (&Message{Kind: KindRequest}).AppendJSON(nil)
	for _, c := range []struct {
		err  error
		want int64
	}{
		{nil, 0},
		{&Error{Code: -32002}, -32002},
		{fmt.Errorf("wrapped: %w", &Error{Code: 5}), 5},
		{(*Error)(nil), CodeInternalError},
		{fmt.Errorf("wrapped: %w", (*Error)(nil)), CodeInternalError},
		{jsonfault.Version, CodeInvalidRequest},
		{fmt.Errorf("wrapped: %w", jsonfault.Positional), CodeInvalidParams},
		{codec.Valid([]byte(`{`)), CodeParseError},
		{codec.Unmarshal([]byte(`1`), new(Error)), CodeInvalidRequest},
		{codec.Unmarshal([]byte(`{"code":"x"}`), new(Error)), CodeInvalidParams},
		{errors.New("other"), CodeInternalError},
		{unwritable, CodeInternalError},
		{incomplete, CodeInternalError},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("%v: got %d, want %d", c.err, got, c.want)
		}
	}
}

func TestKindString(t *testing.T) {
	var names []string
	for k := KindInvalid; k <= KindErrorResponse+1; k++ {
		names = append(names, k.String())
	}
	if diff := cmp.Diff([]string{"invalid", "request", "notification", "response", "error response", "invalid"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

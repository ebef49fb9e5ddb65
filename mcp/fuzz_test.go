package mcp_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/internal/roundtrip"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/schema"
)

// FuzzCallToolOutcome decodes results of tool calls.
func FuzzCallToolOutcome(f *testing.F) {
	seed(f, "CallToolResult", "CreateTaskResult", "InputRequiredResult")
	fuzz(f, func(r *wire.Reader) codec.Encoder { return mcp.DecodeCallToolOutcome(r) })
}

// FuzzTask decodes a task.
func FuzzTask(f *testing.F) {
	seed(f, "Task")
	fuzz(f, func(r *wire.Reader) codec.Encoder { return wire.New(r, (*mcp.Task).DecodeJSON) })
}

// FuzzCreateMessageRequestParams decodes the largest params of the protocol, with unions in
// lists and members of several revisions.
func FuzzCreateMessageRequestParams(f *testing.F) {
	seed(f, "CreateMessageRequestParams")
	fuzz(f, func(r *wire.Reader) codec.Encoder {
		return wire.New(r, (*mcp.CreateMessageRequestParams).DecodeJSON)
	})
}

// FuzzDefinition decodes values of every definition of every revision.
func FuzzDefinition(f *testing.F) {
	roundtrip.Fuzz(f, schema.Revisions(), func(definition string) codec.Value { return mcp.New(definition) },
		func(revision, definition string, text []byte) error {
			return mcp.Validate(mcp.Revision(revision), definition, text)
		})
}

// FuzzParams decodes and encodes whole requests and notifications of every method. The number
// selects the method.
func FuzzParams(f *testing.F) {
	seeds := roundtrip.NewSeeds(f, schema.Revisions())
	methods := mcp.Methods()
	for i, m := range methods {
		f.Add(byte(i), []byte(`{}`))
		seeds.Add(m.Params, 2, func(text []byte) { f.Add(byte(i), text) })
	}
	f.Fuzz(func(t *testing.T, i byte, params []byte) {
		m := methods[int(i)%len(methods)]
		head := `{"jsonrpc":"2.0","id":1,"method":"` + m.Name + `"`
		if m.Notification {
			head = `{"jsonrpc":"2.0","method":"` + m.Name + `"`
		}
		checkMessage(t, head, "params", params, func(text []byte) (jsonrpc.Message, error) { return mcp.DecodeRequest(text) })
	})
}

// FuzzResult is FuzzParams for responses.
func FuzzResult(f *testing.F) {
	seeds := roundtrip.NewSeeds(f, schema.Revisions())
	methods := slices.DeleteFunc(mcp.Methods(), func(m mcp.Method) bool { return m.Notification })
	for i, m := range methods {
		f.Add(byte(i), []byte(`{}`))
		for _, name := range []string{m.Result, strings.Replace(m.Result, "Outcome", "Result", 1), "CreateTaskResult", "InputRequiredResult"} {
			seeds.Add(name, 1, func(text []byte) { f.Add(byte(i), text) })
		}
	}
	f.Fuzz(func(t *testing.T, i byte, result []byte) {
		m := methods[int(i)%len(methods)]
		checkMessage(t, `{"jsonrpc":"2.0","id":"a"`, "result", result, func(text []byte) (jsonrpc.Message, error) {
			return mcp.DecodeResponse(m.Name, text)
		})
	})
}

// FuzzConversation decodes the lines of a text as the messages of one conversation, once in one
// pass and once in two: first the envelope, then the payload. Both must give the same messages and
// errors. A decoded message must be encoded as the same value.
func FuzzConversation(f *testing.F) {
	var talk strings.Builder
	for i, c := range hostile.All(hostile.Messages()) {
		fmt.Fprintf(&talk, "%s\n", strings.ReplaceAll(c.Text, "\n", " "))
		if i%8 == 7 {
			f.Add([]byte(talk.String()))
			talk.Reset()
		}
	}
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{"ttl":6e4}}}
{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttl":null}}}
{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t"}}
{"result":{"content":[{"type":"text","text":"x"}]},"id":2,"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}
{"params":{"name":"p"},"jsonrpc":"2.0","id":1,"method":"prompts/get"}
{"jsonrpc":"2.0","id":1,"result":{"messages":[]}}
{"jsonrpc":"2.0","id":1,"result":{}}
{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}
{"jsonrpc":"2.0","id":1,"result":{"content":7}}
{"jsonrpc":"2.0","id":"a","method":"x/y","params":{"a":[]}}
{"jsonrpc":"2.0","id":"a","result":{"b":1e400}}
{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var one, two mcp.Conversation
		for line := range bytes.Lines(text) {
			got, gotErr := one.Decode(line)
			m, err := jsonrpc.Parse(line)
			if err != nil && jsonrpc.CodeOf(gotErr) != jsonrpc.CodeOf(err) {
				t.Fatalf("%s: in one pass %v, in two %v", line, gotErr, err)
			}
			if err != nil {
				// Next ignores an invalid message.
				two.Decode(line)
				continue
			}
			want, err := two.Next(m)
			if jsonrpc.CodeOf(gotErr) != jsonrpc.CodeOf(err) || got.For != want.For || got.Kind != want.Kind || got.ID != want.ID {
				t.Fatalf("%s: in one pass %+v, %v\nin two %+v, %v", line, got, gotErr, want, err)
			}
			if err != nil {
				continue
			}
			out, err := got.AppendJSON(nil)
			if err != nil {
				t.Fatalf("%s is not written: %v", line, err)
			}
			if out2, err := want.AppendJSON(nil); err != nil || !bytes.Equal(out, out2) {
				t.Fatalf("%s: in one pass\n%s, in two\n%s, %v", line, out, out2, err)
			}
			if d := oracle.Diff(line, out); d != "" {
				t.Fatalf("changed on the way: %s\n%s", d, out)
			}
		}
	})
}

// checkMessage decodes a message with the payload before and after the members in head. Both must
// be the same message, and keep the payload unchanged, as the envelope alone does.
func checkMessage(t *testing.T, head, name string, payload []byte, decode func([]byte) (jsonrpc.Message, error)) {
	member := fmt.Sprintf("%q:%s", name, payload)
	text := []byte(head + "," + member + "}")
	m, err := decode(text)
	raw, rawErr := jsonrpc.Parse(text)
	switch {
	case err != nil && rawErr == nil && jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams:
		t.Fatalf("with code %d: %v", jsonrpc.CodeOf(err), err)
	case err == nil && rawErr != nil:
		t.Fatalf("typed, but %v", rawErr)
	case rawErr == nil && (raw.Kind != m.Kind || raw.ID != m.ID || raw.Method != m.Method):
		t.Fatalf("typed as %+v, else %+v", m, raw)
	}
	if codec.Valid(payload) == nil {
		late, lateErr := decode([]byte("{" + member + "," + head[1:] + "}"))
		if (err == nil) != (lateErr == nil) || err == nil && late.Payload == nil != (m.Payload == nil) {
			t.Fatalf("with the payload in front: %+v, %v, else %+v, %v", late, lateErr, m, err)
		}
	}
	if err != nil {
		return
	}
	out, err := m.AppendJSON(nil)
	if err != nil {
		t.Fatalf("decoded, but not encoded: %v", err)
	}
	if d := oracle.Diff(text, out); d != "" {
		t.Fatalf("changed on the way: %s\n%s", d, out)
	}
	again, err := decode(out)
	if err != nil {
		t.Fatalf("decoded and encoded, but not decoded again: %v\n%s", err, out)
	}
	if out2, err := again.AppendJSON(nil); err != nil || !bytes.Equal(out, out2) {
		t.Fatalf("no fixed point (%v):\n%s\n%s", err, out, out2)
	}
}

// seed adds instances and mutants of the definitions in every revision that has them, and inputs
// that decoders often get wrong.
func seed(f *testing.F, definitions ...string) {
	seeds := roundtrip.NewSeeds(f, schema.Revisions())
	for _, name := range definitions {
		seeds.Add(name, 8, func(text []byte) { f.Add(text) })
	}
	for _, text := range []string{
		``, `null`, `[]`, `"`, `{}`, `{}{}`, "\xef\xbb\xbf{}", `{"a":1,"a":1}`, `{"ttl":1e400}`, `{"ttl":-0}`, `{"task":null}`,
		`{"content":{"a":[[[[]]]]}}`, `{"\ud800":1}`, "{\"\xff\":1}", `{"resultType":"input_required"}`, `{"task":{},"content":[]}`,
	} {
		f.Add([]byte(text))
	}
}

// fuzz decodes random text with read.
func fuzz(f *testing.F, read func(*wire.Reader) codec.Encoder) {
	f.Fuzz(func(t *testing.T, text []byte) { roundtrip.CheckText(t, text, read) })
}

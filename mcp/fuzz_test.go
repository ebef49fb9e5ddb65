package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/gen/load"
	"github.com/mcpwire/mcpwire/internal/instance"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/schema"
)

// FuzzCallToolOutcome decodes what answers a tool call.
func FuzzCallToolOutcome(f *testing.F) {
	seed(f, "CallToolResult", "CreateTaskResult", "InputRequiredResult")
	fuzz(f, func(r *codec.Reader) codec.Encoder { return mcp.DecodeCallToolOutcome(r) })
}

// FuzzTask decodes a task.
func FuzzTask(f *testing.F) {
	seed(f, "Task")
	fuzz(f, func(r *codec.Reader) codec.Encoder { return codec.New(r, (*mcp.Task).DecodeJSON) })
}

// FuzzCreateMessageRequestParams decodes the largest params of the protocol, with unions in
// lists and members of several revisions.
func FuzzCreateMessageRequestParams(f *testing.F) {
	seed(f, "CreateMessageRequestParams")
	fuzz(f, func(r *codec.Reader) codec.Encoder {
		return codec.New(r, (*mcp.CreateMessageRequestParams).DecodeJSON)
	})
}

// FuzzDefinition decodes values of every definition, each by its own type. The number says which
// definition it is.
func FuzzDefinition(f *testing.F) {
	docs := documents(f)
	names := definitions(docs)
	for i, name := range names {
		instances(f, docs, name, 1, func(text []byte) { f.Add(uint16(i), text) })
	}
	f.Fuzz(func(t *testing.T, i uint16, text []byte) {
		name := names[int(i)%len(names)]
		check(t, text, func(r *codec.Reader) codec.Encoder {
			v := mcp.New(name)
			v.DecodeJSON(r)
			return v
		})
	})
}

// FuzzParams decodes and encodes whole requests and notifications of every method. The number
// says which method it is.
func FuzzParams(f *testing.F) {
	docs := documents(f)
	methods := mcp.Methods()
	for i, m := range methods {
		f.Add(byte(i), []byte(`{}`))
		instances(f, docs, m.Params, 2, func(text []byte) { f.Add(byte(i), text) })
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
	docs := documents(f)
	methods := slices.DeleteFunc(mcp.Methods(), func(m mcp.Method) bool { return m.Notification })
	for i, m := range methods {
		f.Add(byte(i), []byte(`{}`))
		for _, name := range []string{m.Result, strings.Replace(m.Result, "Outcome", "Result", 1), "CreateTaskResult", "InputRequiredResult"} {
			instances(f, docs, name, 1, func(text []byte) { f.Add(byte(i), text) })
		}
	}
	f.Fuzz(func(t *testing.T, i byte, result []byte) {
		m := methods[int(i)%len(methods)]
		checkMessage(t, `{"jsonrpc":"2.0","id":"a"`, "result", result, func(text []byte) (jsonrpc.Message, error) {
			return mcp.DecodeResponse(m.Name, text)
		})
	})
}

// checkMessage decodes a message that has payload as its member name, in front of what head has
// and behind it. Both must be the same message, and keep the payload as the plain envelope does.
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
	if d := difference(text, out); d != "" {
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

// seed adds instances and mutants of the definitions in every revision that has them, and
// what else is easily got wrong.
func seed(f *testing.F, definitions ...string) {
	docs := documents(f)
	for _, name := range definitions {
		instances(f, docs, name, 8, func(text []byte) { f.Add(text) })
	}
	for _, text := range []string{
		``, `null`, `[]`, `"`, `{}`, `{}{}`, "\xef\xbb\xbf{}", `{"a":1,"a":1}`, `{"ttl":1e400}`, `{"ttl":-0}`, `{"task":null}`,
		`{"content":{"a":[[[[]]]]}}`, `{"\ud800":1}`, "{\"\xff\":1}", `{"resultType":"input_required"}`, `{"task":{},"content":[]}`,
	} {
		f.Add([]byte(text))
	}
}

// instances makes count instances and as many mutants of a definition in every revision that
// has it.
func instances(f *testing.F, docs []*load.Document, definition string, count int, add func(text []byte)) {
	for _, doc := range docs {
		if doc.Defs[definition] == nil {
			continue
		}
		maker := instance.New(doc, 1)
		for range count {
			v, err := maker.Value(definition)
			if err != nil {
				f.Fatal(err)
			}
			add(v.JSON())
			add(maker.Mutant(v).JSON())
		}
	}
}

// definitions lists what any revision defines.
func definitions(docs []*load.Document) []string {
	var names []string
	for _, doc := range docs {
		names = append(names, doc.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// documents reads the schemas of all revisions.
func documents(f *testing.F) []*load.Document {
	var docs []*load.Document
	for _, rev := range schema.Revisions() {
		src, err := schema.Read(rev)
		if err != nil {
			f.Fatal(err)
		}
		doc, err := load.Parse(rev, rev+".json", src)
		if err != nil {
			f.Fatal(err)
		}
		docs = append(docs, doc)
	}
	return docs
}

// fuzz decodes random text with read. What encoding/json or package codec calls malformed
// must be refused, though perhaps for something in front of that; what is well formed must
// not be called malformed. What decodes must come back the same, and stay so.
func fuzz(f *testing.F, read func(*codec.Reader) codec.Encoder) {
	f.Fuzz(func(t *testing.T, text []byte) { check(t, text, read) })
}

func check(t *testing.T, text []byte, read func(*codec.Reader) codec.Encoder) {
	v, err := codec.UnmarshalFunc(text, read)
	malformed := codec.Valid(text)
	switch {
	case malformed == nil && !json.Valid(text):
		t.Fatal("encoding/json finds the text malformed, package codec does not")
	case malformed != nil && err == nil:
		t.Fatalf("malformed text was decoded: %v", malformed)
	case malformed == nil && codec.Code(err) == -32700:
		t.Fatalf("the text is well formed, but decoding says %v", err)
	case err != nil:
		return
	}
	out, err := codec.Marshal(v)
	if err != nil {
		t.Fatalf("decoded, but not encoded: %v", err)
	}
	if !json.Valid(out) {
		t.Fatalf("encoding/json finds the output malformed:\n%s", out)
	}
	if d := difference(text, out); d != "" {
		t.Fatalf("changed on the way: %s\n%s", d, out)
	}
	again, err := codec.UnmarshalFunc(out, read)
	if err != nil {
		t.Fatalf("decoded and encoded, but not decoded again: %v\n%s", err, out)
	}
	if out2, err := codec.Marshal(again); err != nil || !bytes.Equal(out, out2) {
		t.Fatalf("no fixed point (%v):\n%s\n%s", err, out, out2)
	}
}

// difference is where two texts differ, if they can be compared.
func difference(text, out []byte) string {
	if hugeExponent(text) {
		return ""
	}
	return oracle.Diff(text, out)
}

// hugeExponent reports whether text may have a number whose exponent is beyond what the
// comparison can take.
func hugeExponent(text []byte) bool {
	digits := 0
	for i, c := range text {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case c == 'e' || c == 'E' || (c == '+' || c == '-') && i > 0 && (text[i-1] == 'e' || text[i-1] == 'E'):
			digits = 0
		default:
			if digits > 17 {
				return true
			}
			digits = 0
		}
	}
	return digits > 17
}

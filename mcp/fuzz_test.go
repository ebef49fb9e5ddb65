package mcp_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
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

// seed adds instances and mutants of the definitions in every revision that has them, and
// what else is easily got wrong.
func seed(f *testing.F, definitions ...string) {
	for _, rev := range schema.Revisions() {
		src, err := schema.Read(rev)
		if err != nil {
			f.Fatal(err)
		}
		doc, err := load.Parse(rev, rev+".json", src)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range definitions {
			if doc.Defs[name] == nil {
				continue
			}
			maker := instance.New(doc, 1)
			for range 8 {
				v, err := maker.Value(name)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(v.JSON())
				f.Add(maker.Mutant(v).JSON())
			}
		}
	}
	for _, text := range []string{
		``, `null`, `[]`, `"`, `{}`, `{}{}`, "\xef\xbb\xbf{}", `{"a":1,"a":1}`, `{"ttl":1e400}`, `{"ttl":-0}`, `{"task":null}`,
		`{"content":{"a":[[[[]]]]}}`, `{"\ud800":1}`, "{\"\xff\":1}", `{"resultType":"input_required"}`, `{"task":{},"content":[]}`,
	} {
		f.Add([]byte(text))
	}
}

// fuzz decodes random text with read. What encoding/json or package codec calls malformed
// must be refused, though perhaps for something in front of that; what is well formed must
// not be called malformed. What decodes must come back the same, and stay so.
func fuzz(f *testing.F, read func(*codec.Reader) codec.Encoder) {
	f.Fuzz(func(t *testing.T, text []byte) {
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
		if !hugeExponent(text) {
			if d := oracle.Diff(text, out); d != "" {
				t.Fatalf("changed on the way: %s\n%s", d, out)
			}
		}
		again, err := codec.UnmarshalFunc(out, read)
		if err != nil {
			t.Fatalf("decoded and encoded, but not decoded again: %v\n%s", err, out)
		}
		if out2, err := codec.Marshal(again); err != nil || !bytes.Equal(out, out2) {
			t.Fatalf("no fixed point (%v):\n%s\n%s", err, out, out2)
		}
	})
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
